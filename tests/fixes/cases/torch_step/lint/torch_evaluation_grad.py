"""The cases of `torch_evaluation_grad`."""

from __future__ import annotations

silent = (
    """
        import torch
        @torch.no_grad()
        def test(model, l):
            model.eval()
            for x in l:
                model(x)
        """,
    """
        import torch
        def test(model, l):
            model.eval()
            with torch.no_grad():
                for x in l:
                    model(x)
        """,
    """
        import torch
        def test(model, l):
            model.eval()
            for x in l:
                model(x)
        with torch.no_grad():
            test(model, l)
        """,
    """
        import torch
        def saliency(model, l):
            model.eval()
            for x in l:
                model(x).sum().backward()
        """,
    """
        import torch
        def test(model, l):
            model.eval()
            for x in l:
                model(x)
        """,
)

fires = (
    """
        import torch
        def test(model, l):
            model.eval()
            for x in l:
                model(x)
        for epoch in range(3):
            test(model, l)
        """,
    """
        import torch
        class T:
            def fit(self):
                self.validate()
            def validate(self):
                self.model.eval()
                for x, y in self.loader:
                    self.seen += self.model(x).sum()
        """,
)

"""The cases of `torch_zero_grad`."""

from __future__ import annotations

silent = (
    """
        import torch
        for x in l:
            opt.zero_grad()
            loss.backward()
            opt.step()
        """,
    """
        import torch
        for x in l:
            opt.zero_grad(set_to_none=n)
            loss.backward()
        """,
)

fires = (
    """
        import torch
        for x in l:
            opt.zero_grad(set_to_none=False)
            loss.backward()
        """,
    """
        import torch
        def train():
            while True:
                opt.zero_grad(False)
        """,
)

"""The cases of `torch_debug_modes`."""

from __future__ import annotations

silent = (
    """
        import torch
        torch.autograd.set_detect_anomaly(False)
        """,
    """
        import torch
        torch.autograd.set_detect_anomaly(args.debug)
        """,
    """
        import torch
        if args.debug:
            torch.autograd.set_detect_anomaly(True)
        """,
    """
        import torch
        with torch.profiler.profile(schedule=s) as p:
            for x in l:
                loss.backward()
                opt.step()
                p.step()
        """,
    """
        import torch
        with torch.profiler.profile() as p:
            model(x)
        """,
    """
        import torch
        def train():
            for x in l:
                loss.backward()
                opt.step()
        with torch.autograd.detect_anomaly():
            check(model)
        train()
        """,
)

fires = (
    """
        import torch
        torch.autograd.set_detect_anomaly(True)
        """,
    """
        import torch
        for x in l:
            with torch.autograd.detect_anomaly():
                loss.backward()
            opt.step()
        """,
    """
        import torch
        torch.use_deterministic_algorithms(True)
        for x in l:
            loss.backward()
            opt.step()
        """,
    """
        from torch.profiler import profile
        with profile() as p:
            for x in l:
                loss.backward()
                opt.step()
        """,
    """
        import torch
        def train():
            for x in l:
                loss.backward()
                opt.step()
        with torch.autograd.detect_anomaly():
            for epoch in range(9):
                train()
        """,
)

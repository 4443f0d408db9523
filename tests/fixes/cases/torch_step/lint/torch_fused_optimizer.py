"""The cases of `torch_fused_optimizer`."""

from __future__ import annotations

silent = (
    """
        import torch
        opt = torch.optim.AdamW(p, lr=1e-3)
        """,
    """
        import torch
        opt = torch.optim.AdamW(p, foreach=False, fused=True)
        """,
    """
        import torch
        opt = torch.optim.RMSprop(p, foreach=False)
        """,
)

fires = (
    """
        import torch
        opt = torch.optim.AdamW(p, foreach=False)
        """,
    """
        from torch.optim import SGD
        opt = SGD(p, lr=0.1, foreach=False)
        """,
)

"""The cases of `torch_cudnn_benchmark`."""

from __future__ import annotations

silent = (
    """
        import torch
        torch.backends.cudnn.benchmark = True
        """,
    """
        import torch
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False
        """,
    """
        import torch
        torch.backends.cudnn.benchmark = args.benchmark
        """,
)

fires = (
    """
        import torch
        torch.backends.cudnn.benchmark = False
        """,
    """
        from torch.backends import cudnn
        cudnn.benchmark = False
        """,
)

"""The cases of `torch_matmul_precision`."""

from __future__ import annotations

silent = (
    """
        import torch
        torch.set_float32_matmul_precision('high')
        """,
    """
        import torch
        torch.backends.cuda.matmul.allow_tf32 = True
        """,
    """
        import torch
        old = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = False
        f()
        torch.backends.cuda.matmul.allow_tf32 = old
        """,
    """
        import torch
        if exact:
            torch.set_float32_matmul_precision('highest')
        """,
)

fires = (
    """
        import torch
        torch.set_float32_matmul_precision('highest')
        """,
    """
        import torch
        torch.backends.cuda.matmul.allow_tf32 = False
        """,
)

"""The cases of `torch_float64`."""

from __future__ import annotations

silent = (
    """
        import torch
        torch.set_default_dtype(torch.float32)
        for x in l:
            loss.backward()
            opt.step()
        """,
    """
        import torch
        torch.set_default_dtype(torch.float64)
        print(f(x))
        """,
)

fires = (
    """
        import torch
        torch.set_default_dtype(torch.float64)
        for x in l:
            loss.backward()
            opt.step()
        """,
    """
        import torch
        torch.set_default_tensor_type(torch.DoubleTensor)
        for x in l:
            loss.backward()
            opt.step()
        """,
)

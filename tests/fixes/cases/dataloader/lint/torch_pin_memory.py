"""The cases of `torch_pin_memory`."""

from __future__ import annotations

silent = (
    """
        from torch.utils.data import DataLoader
        l = DataLoader(d, pin_memory=True)
        for x in l:
            f(x.cuda()).backward()
            opt.step()
        """,
    """
        from torch.utils.data import DataLoader
        l = DataLoader(d)
        for x in l:
            f(x).backward()
            opt.step()
        """,
    """
        from torch.utils.data import DataLoader
        l = DataLoader(d)
        for x in l:
            f(x.to(device)).backward()
            opt.step()
        """,
    """
        from torch.utils.data import DataLoader
        l = DataLoader(d, **options)
        for x in l:
            f(x.cuda()).backward()
            opt.step()
        """,
)

fires = (
    """
        from torch.utils.data import DataLoader
        l = DataLoader(d)
        for x in l:
            f(x.cuda()).backward()
            opt.step()
        """,
    """
        import torch
        DEVICE = 'cuda'
        l = torch.utils.data.DataLoader(d, 32)
        for i, (x, y) in enumerate(l):
            x = x.to(DEVICE)
            f(x).backward()
            opt.step()
        """,
)

"""The cases of `torch_loader_rebuilt`."""

from __future__ import annotations

silent = (
    """
        from torch.utils.data import DataLoader
        l = DataLoader(d, num_workers=2)
        for epoch in range(3):
            for x in l:
                loss.backward()
                opt.step()
        """,
    """
        from torch.utils.data import DataLoader
        for epoch in range(3):
            d.reorder()
            for x in DataLoader(d, num_workers=2):
                loss.backward()
                opt.step()
        """,
    """
        from torch.utils.data import DataLoader
        for fold in folds:
            l = DataLoader(parts[fold], num_workers=2)
            for x in l:
                loss.backward()
                opt.step()
        """,
    """
        import torch
        from torch.utils.data import DataLoader
        for seed in range(3):
            opt = torch.optim.SGD(make())
            l = DataLoader(d, num_workers=2)
            for x in l:
                loss.backward()
                opt.step()
        """,
)

fires = (
    """
        from torch.utils.data import DataLoader
        for epoch in range(3):
            l = DataLoader(d, num_workers=2)
            for x in l:
                loss.backward()
                opt.step()
        """,
    """
        from torch.utils.data import DataLoader
        for epoch in range(3):
            for x in DataLoader(d, num_workers=2):
                loss.backward()
                opt.step()
        """,
)

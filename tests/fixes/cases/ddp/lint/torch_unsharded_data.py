"""The cases of `torch_unsharded_data`."""

from __future__ import annotations

silent = (
    """
        from torch.utils.data import DataLoader, DistributedSampler
        from torch.nn.parallel import DistributedDataParallel as DDP
        m = DDP(m)
        for x in DataLoader(d, sampler=DistributedSampler(d)):
            loss.backward()
            opt.step()
        """,
    """
        from torch.utils.data import DataLoader
        for x in DataLoader(d, shuffle=True):
            loss.backward()
            opt.step()
        """,
    """
        from torch.utils.data import DataLoader
        from torch.nn.parallel import DistributedDataParallel as DDP
        m = DDP(m)
        for x in DataLoader(d[rank::world], shuffle=True):
            loss.backward()
            opt.step()
        """,
)

fires = (
    """
        from torch.utils.data import DataLoader
        from torch.nn.parallel import DistributedDataParallel as DDP
        m = DDP(m)
        for x in DataLoader(d, 32, shuffle=True):
            loss.backward()
            opt.step()
        """,
    """
        import torch
        m = torch.nn.parallel.DistributedDataParallel(m)
        l = torch.utils.data.DataLoader(d, shuffle=True)
        for x in l:
            loss.backward()
            opt.step()
        """,
)

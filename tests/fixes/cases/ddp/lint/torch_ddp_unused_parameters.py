"""The cases of `torch_ddp_unused_parameters`."""

from __future__ import annotations

silent = (
    """
        from torch.nn.parallel import DistributedDataParallel as DDP
        m = DDP(m)
        """,
    """
        from torch.nn.parallel import DistributedDataParallel as DDP
        m = DDP(m, find_unused_parameters=flag)
        """,
    """
        from torch.nn.parallel import DistributedDataParallel as DDP
        m = DDP(m, find_unused_parameters=True, static_graph=True)
        """,
)

fires = (
    """
        from torch.nn.parallel import DistributedDataParallel as DDP
        m = DDP(m, find_unused_parameters=True)
        """,
    """
        import torch
        m = torch.nn.parallel.DistributedDataParallel(
            m, device_ids=[0], find_unused_parameters=True)
        """,
)

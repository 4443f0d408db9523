"""The cases of `torch_data_parallel`."""

from __future__ import annotations

silent = (
    """
        from torch.nn.parallel import DistributedDataParallel
        m = DistributedDataParallel(m)
        """,
    """
        import torch
        m = torch.nn.DataParallel(m, device_ids=[0])
        """,
    """
        import torch
        isinstance(m, torch.nn.DataParallel)
        """,
)

fires = (
    """
        from torch import nn
        m = nn.DataParallel(m)
        """,
    """
        import torch
        if torch.cuda.device_count() > 1:
            m = torch.nn.DataParallel(m).cuda()
        """,
)

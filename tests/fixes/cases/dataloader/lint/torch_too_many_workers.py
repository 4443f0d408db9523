"""The cases of `torch_too_many_workers`."""

from __future__ import annotations

silent = (
    """
        from torch.utils.data import DataLoader
        l = DataLoader(d, num_workers=4)
        """,
    """
        import os
        from torch.utils.data import DataLoader
        l = DataLoader(d, num_workers=min(8, os.cpu_count()))
        """,
    """
        import os
        from torch.utils.data import DataLoader
        l = DataLoader(d, num_workers=len(os.sched_getaffinity(0)))
        """,
)

fires = (
    """
        import os
        from torch.utils.data import DataLoader
        l = DataLoader(d, num_workers=os.cpu_count())
        """,
    """
        from multiprocessing import cpu_count
        from torch.utils.data import DataLoader
        N = cpu_count() or 1
        l = DataLoader(d, 32, num_workers=N)
        """,
)

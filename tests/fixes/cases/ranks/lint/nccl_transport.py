"""The cases of `nccl_transport`."""

from __future__ import annotations

silent = (
    """
        import os, torch
        os.environ['NCCL_NET'] = 'IB'
        """,
    """
        import os, torch
        os.environ['FI_PROVIDER'] = 'efa'
        """,
)

fires = (
    """
        import os, torch
        os.environ['NCCL_NET'] = 'Socket'
        """,
    """
        import os, torch
        os.environ['NCCL_P2P_LEVEL'] = 'LOC'
        """,
)

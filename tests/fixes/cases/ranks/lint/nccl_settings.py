"""The cases of `nccl_settings`."""

from __future__ import annotations

silent = (
    """
        import os, torch
        os.environ['NCCL_P2P_DISABLE'] = '0'
        """,
    """
        import os, torch
        os.environ['NCCL_DEBUG'] = 'INFO'
        """,
)

fires = (
    """
        import os, torch
        os.environ['NCCL_P2P_DISABLE'] = '1'
        """,
    """
        import os, torch
        os.environ.setdefault('NCCL_DEBUG', 'TRACE')
        """,
)

"""The cases of `torch_launch_blocking`."""

from __future__ import annotations

silent = (
    """
        import os, torch
        os.environ['CUDA_LAUNCH_BLOCKING'] = '0'
        """,
    """
        import os, torch
        if args.debug:
            os.environ['CUDA_LAUNCH_BLOCKING'] = '1'
        """,
)

fires = (
    """
        import os
        os.environ['CUDA_LAUNCH_BLOCKING'] = '1'
        import torch
        """,
    """
        import os, torch
        def main():
            os.environ.update({'CUDA_LAUNCH_BLOCKING': '1'})
        """,
)

"""The devices that a PyTorch loop uses."""

from __future__ import annotations

import sys


class TorchDevice:
    """The current CUDA device; the CPU has nothing queued."""

    def wait(self) -> None:
        """Wait until the GPU has done what was queued; nothing to do on the CPU."""
        cuda = sys.modules["torch"].cuda
        if cuda.is_initialized():
            cuda.synchronize()

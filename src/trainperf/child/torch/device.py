"""The devices that a PyTorch loop uses."""

from __future__ import annotations

import sys
from typing import Any


class TorchDevice:
    """All CUDA devices that this process has a context on; the CPU has nothing queued."""

    def wait(self) -> None:
        """Wait until they have done what was queued; nothing to do on the CPU.

        `torch.cuda.synchronize()` by itself waits for the current device only: a script on
        `cuda:1`, or with a model on several, queues work elsewhere.
        """
        torch: Any = sys.modules["torch"]
        if not torch.cuda.is_initialized():
            return
        used = getattr(torch._C, "_cuda_hasPrimaryContext", None)
        if used is None:
            torch.cuda.synchronize()
            return
        for index in range(torch.cuda.device_count()):
            if used(index):
                torch.cuda.synchronize(index)

"""The fact `gpu_build`: for which CUDA and which GPUs the framework was built.

Only what the build itself holds is read: nothing asks the driver, which must not be
started in a process that may still fork its workers.
"""

from __future__ import annotations

import sys
from typing import Any


def record_torch(driver: Any) -> None:
    """Record what PyTorch was built for; nothing where it was built for the CPU."""
    torch: Any = sys.modules["torch"]
    if torch.version.cuda is None:
        return
    held = (torch._C._cuda_getArchFlags() or "").split()
    driver.process.fact("gpu_build", {"cuda": str(torch.version.cuda), "capabilities": held})


def record_tensorflow(driver: Any) -> None:
    """Record what TensorFlow was built for; nothing where it was built for the CPU."""
    tf: Any = sys.modules["tensorflow"]
    build = dict(tf.sysconfig.get_build_info())
    if not build.get("is_cuda_build"):
        return
    held = [str(one) for one in build.get("cuda_compute_capabilities") or ()]
    driver.process.fact("gpu_build", {"cuda": build.get("cuda_version"), "capabilities": held})

"""Facts of CUDA that need no driver: for what the framework was built, how GPUs are numbered.

Only what the build itself holds is read: nothing asks the driver, which must not be
started in a process that may still fork its workers.
"""

from __future__ import annotations

import os
import sys
from typing import Any


def record_order(driver: Any) -> None:
    """Record which GPUs CUDA shows to this process, and in which order it counts them."""
    driver.process.fact("cuda_visible_devices", os.environ.get("CUDA_VISIBLE_DEVICES"))
    driver.process.fact("cuda_device_order", os.environ.get("CUDA_DEVICE_ORDER"))


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

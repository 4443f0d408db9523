"""What this machine is, as far as a process in it can see."""

from __future__ import annotations

import os
import platform
import socket
from pathlib import Path

from trainperf.machine import cgroup, host
from trainperf.model import Machine
from trainperf.samplers.nvml import NvmlSampler

ROOT = Path("/")


def inspect_machine(root: Path = ROOT, directory: Path | None = None) -> Machine:
    """Return what the machine is; what cannot be read is None.

    `gpu_reason` also names GPUs that cannot be opened while others can. Raises
    `OSError` where there is no /proc: trainperf needs Linux.

    `/proc`, `/sys`, `/dev` and `/etc` are read below `root`. The free disk is that of
    `directory`, the current one if None.
    """
    visible = os.cpu_count() or 1
    affinity = len(os.sched_getaffinity(0))
    quota = cgroup.cpu_quota(root)
    memory = host.memory(root)
    limit = cgroup.memory_limit(root)
    shm = host.space(root / "dev/shm")
    disk = host.space(directory or Path())
    available = memory.available
    if limit is not None:
        available = min(available, limit.available)
    with NvmlSampler() as nvml:
        return Machine(
            hostname=socket.gethostname(),
            os=host.operating_system(root),
            python=platform.python_version(),
            cpu_model=host.cpu_model(root),
            visible_cores=visible,
            affinity_cores=affinity,
            quota_cores=quota,
            cores=min(visible, affinity, *([] if quota is None else [quota])),
            memory_total=memory.total,
            memory_limit=memory.total if limit is None else min(memory.total, limit.limit),
            memory_available=available,
            shm_total=shm.total if shm else None,
            shm_free=shm.free if shm else None,
            disk_free=disk.free if disk else None,
            gpus=nvml.gpus,
            gpu_reason=nvml.reason
            or "; ".join(f"GPU {index} {why}" for index, why in nvml.lost.items()),
            driver=nvml.driver,
            driver_cuda=nvml.driver_cuda,
        )

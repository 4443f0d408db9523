"""This machine, as far as a process in it can see."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import warnings
from contextlib import suppress
from pathlib import Path

import psutil

from trainperf.machine import host
from trainperf.machine.instance import inquiry
from trainperf.model import Machine, Price
from trainperf.samplers.container import Quota
from trainperf.samplers.nvml import NvmlSampler

ROOT = Path("/")


def inspect_machine(
    root: Path = ROOT,
    directory: Path | None = None,
    price_per_hour: float | None = None,
) -> Machine:
    """Return what the machine is; what cannot be read is None.

    `gpu_reason` also names GPUs that cannot be opened while others can.

    `/proc`, `/sys` and `/dev` are read below `root`, but for the memory. The free disk
    is that of `directory`, the current one if None.

    On AWS it also says which instance this is: the first call of a process may wait a second for
    that, no later one does. `price_per_hour` is in US dollars.
    """
    asked = inquiry(root)
    visible = os.cpu_count() or 1
    affinity = len(os.sched_getaffinity(0))
    quota = Quota(root).cores
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        memory = psutil.virtual_memory()  # of counters that are not told, which nobody reads
    limit, left = host.memory_limit(root) or (memory.total, memory.available)
    shm, disk = _space(root / "dev/shm"), _space(directory or Path())
    with NvmlSampler() as nvml:
        instance, reason = asked.answer()
        return Machine(
            hostname=socket.gethostname(),
            os=host.operating_system(),
            python=platform.python_version(),
            cpu_model=host.cpu_model(root),
            visible_cores=visible,
            affinity_cores=affinity,
            quota_cores=quota,
            cores=min(visible, affinity, *([] if quota is None else [quota])),
            memory_total=memory.total,
            memory_limit=min(memory.total, limit),
            memory_available=min(memory.available, left),
            shm_total=shm.total if shm else None,
            shm_free=shm.free if shm else None,
            disk_free=disk.free if disk else None,
            gpus=nvml.gpus,
            gpu_reason=nvml.reason
            or "; ".join(f"GPU {index} {why}" for index, why in nvml.lost.items()),
            driver=nvml.driver,
            driver_cuda=nvml.driver_cuda,
            instance=instance,
            instance_reason=reason,
            price=Price(price_per_hour, "--price-per-hour") if price_per_hour else None,
            omp_num_threads=os.environ.get("OMP_NUM_THREADS"),
        )


def _space(folder: Path) -> shutil._ntuple_diskusage | None:
    with suppress(OSError):
        return shutil.disk_usage(folder)
    return None

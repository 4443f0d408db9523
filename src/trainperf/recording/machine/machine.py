"""The box a script runs on, its GPUs, and the limits of its container."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainperf.recording.machine.instance import Instance, Price

POWER_CAP = "power cap"
APPLICATION_CLOCKS = "application clocks"

ComputeMode = Literal["", "shared", "exclusive", "prohibited"]
"""How many processes may compute on a GPU: any, one at a time, none; "" if not told."""


@dataclass(frozen=True)
class Gpu:
    """A GPU as NVML describes it; `None` where the driver does not say.

    `memory_before` is what others held of its memory before the run started.
    """

    index: int
    name: str
    memory_total: int | None = None
    compute_capability: str | None = None
    power_limit_w: float | None = None
    max_sm_clock_mhz: int | None = None
    ecc_errors: int | None = None  # uncorrected, since the driver was loaded
    mig: bool | None = None
    other_processes: int | None = None  # that had it open before the run started
    busy_before: float | None = None  # share of the time they kept it busy then
    application_clock_mhz: int | None = None  # of the SMs, as set or by default
    uuid: str | None = None  # "GPU-…": CUDA counts GPUs in another order, and fewer
    compute_mode: ComputeMode = ""
    memory_before: int | None = None


@dataclass(frozen=True)
class CudaDevice:
    """A GPU, or a slice of one, as CUDA shows it to the script's process, `used` or not.

    `number` is CUDA's, `index` that of the same GPU in NVML, None where it is not known which
    it is. In MIG mode memory and name are those of the slice. What the framework does not tell is
    None.
    """

    number: int
    name: str
    used: bool = True
    index: int | None = None
    uuid: str | None = None
    memory_total: int | None = None
    compute_capability: str | None = None
    mig: bool = False


@dataclass(frozen=True)
class Machine:
    """The box, as far as a process in it can see.

    `cores` is what the process may really use: the smallest of the visible cores,
    the affinity mask and the cgroup's CPU quota. `memory_limit` is the smaller of
    the physical memory and the cgroup's limit.
    """

    hostname: str
    os: str
    python: str
    cpu_model: str
    visible_cores: int
    affinity_cores: int
    quota_cores: float | None
    cores: float
    memory_total: int
    memory_limit: int
    memory_available: int
    shm_total: int | None = None
    shm_free: int | None = None
    disk_free: int | None = None
    gpus: tuple[Gpu, ...] = ()
    gpu_reason: str = ""  # why the list is empty, or some GPUs are not in it
    driver: str | None = None
    driver_cuda: str | None = None
    instance: Instance | None = None
    instance_reason: str = ""  # why it is None: "not an AWS instance", say
    price: Price | None = None
    omp_num_threads: str | None = None  # as trainperf's own environment has it


@dataclass(frozen=True)
class ContainerUse:
    """The counts of the control groups between the start and the end of the observed run.

    None where the kernel does not say. `throttled_share` is the share of the periods of
    the CPU quota in which the group was stopped for having used it up, `memory_pressure` that of
    the time in which some task waited for memory (Linux's pressure stall information), of the
    group or else of the machine. Memory is bytes, the peak without page cache that the kernel can
    drop; `memory_events` counts "oom_kill". `swapped_in` are bytes of the
    whole machine.
    """

    seconds: float
    quota_cores: float | None = None
    throttled_share: float | None = None
    memory_limit: int | None = None
    memory_peak: int | None = None
    memory_pressure: float | None = None
    memory_events: tuple[tuple[str, int], ...] = ()
    swapped_in: int | None = None

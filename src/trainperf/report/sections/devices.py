"""How busy the machine was while the script trained, and the container's limits that were met."""

from __future__ import annotations

from typing import Any

from trainperf.model import ContainerUse, Diagnosis, Machine, PhaseUse, Torch
from trainperf.model import words as units
from trainperf.report.document import STEP, Page, Section

LABEL = 9
"""Columns of the names at the left."""

LEAST_READ = 100 * 1024
"""Bytes a second below which what is read from a disk is not worth a word."""

_THROTTLED = 0.01
"""Share of the quota's periods from which stops are worth a line; our choice."""

_NEAR = 0.90
"""Share of the memory limit from which its use is worth a line; our choice."""


def devices(diagnosis: Diagnosis, page: Page) -> None:
    """Print how busy GPUs and host were while the script trained, and the GPU's memory."""
    evidence = diagnosis.evidence
    use = next((use for use in evidence.use if use.phase == "real"), None)
    used = {one.index for one in evidence.device.used}
    every = not used or None in used or evidence.parallel_ is not None
    gpus = [gpu for gpu in (use.gpu if use else ()) if every or gpu["index"] in used]
    rows = [(f"GPU {gpu['index']}", _gpu(gpu)) for gpu in gpus]
    rows.append(("Memory", _device_memory(evidence.torch_)))
    rows.append(("Host", [] if use is None else _host(use, evidence.machine)))
    if not any(told for _, told in rows):
        return
    page.heading("Machine while training")
    for name, told in rows:
        if told:
            page.fact(name, "; ".join(told), LABEL)


def _host(use: PhaseUse, machine: Machine) -> list[str]:
    told = []
    if use.cpu_cores is not None:
        told.append(f"{use.cpu_cores:.2g} of {units.cores(machine.cores)} busy")
    if use.rss_peak is not None:
        told.append(f"memory {units.size(use.rss_peak)}")
    if use.read_bytes_s is not None and use.read_bytes_s >= LEAST_READ:
        told.append(f"reading {units.size(use.read_bytes_s)}/s")
    return told


def _device_memory(torch: Torch | None) -> list[str]:
    """Say what the framework's allocator counted on the GPU."""
    memory = {} if torch is None else torch.memory
    told = []
    if (reserved := memory.get("reserved_peak")) is not None:
        total = memory.get("total")
        of = f" of {units.size(total)} ({units.share(reserved / total)})" if total else ""
        told.append(f"PyTorch reserved {units.size(reserved)}{of}")
    if retries := memory.get("retries"):
        told.append(f"emptied its cache to find room {units.count(retries, 'time')}")
    return told


def _gpu(gpu: dict[str, Any]) -> list[str]:
    """Say in words what is known of a GPU; what the driver did not say is left out."""
    told = []
    if (busy := gpu.get("utilization_percent")) is not None:
        told.append(f"a kernel ran {busy:.0f} % of the time")
    for key, words in (("sm_active", "SMs active"), ("tensor_active", "tensor cores")):
        if (value := gpu.get(key)) is not None:
            told.append(f"{words} {units.share(value)}")
    if (used := gpu.get("memory_used_peak")) is not None:
        told.append(f"memory {units.size(used)}")
    if throttle := gpu.get("throttle"):
        told.append(f"slowed down by {', '.join(throttle)}")
    return told


def limits(diagnosis: Diagnosis, page: Page) -> None:
    """Print what the container's limits cost the run, a line for each that mattered."""
    use = diagnosis.evidence.container
    if use is None or not (told := _limits(use)):
        return
    contained = use.quota_cores is not None or use.memory_limit is not None
    page.heading("Limits of the container" if contained else "Limits of the machine")
    for text in told:
        page.item(text)


def _limits(use: ContainerUse) -> list[str]:
    told = []
    if use.quota_cores is not None and (use.throttled_share or 0.0) >= _THROTTLED:
        quota = units.cores(use.quota_cores)
        share = units.share(use.throttled_share or 0.0)
        told.append(f"CPU quota of {quota}: used up in {share} of its periods")
    if use.memory_limit and use.memory_peak and use.memory_peak >= _NEAR * use.memory_limit:
        most, limit = units.size(use.memory_peak), units.size(use.memory_limit)
        told.append(f"Memory: {most} of {limit} used at most")
    if kills := dict(use.memory_events).get("oom_kill"):
        told.append(f"Memory: the kernel ended {kills} process{'es' if kills > 1 else ''}")
    if (waited := use.memory_pressure or 0.0) >= _THROTTLED:
        told.append(f"Memory: a task waited for it in {units.share(waited)} of the time")
    if use.swapped_in:
        told.append(f"Swap: {units.size(use.swapped_in)} read back by the whole machine")
    return told


SECTIONS = (
    Section("devices", STEP + 110, devices, side="machine"),
    Section("limits", STEP + 140, limits, limits, side="machine"),
)

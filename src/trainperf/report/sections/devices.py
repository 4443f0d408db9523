"""How busy the machine was while the script trained, and the container's limits that were met."""

from __future__ import annotations

from typing import Any

from trainperf.model import ContainerUse, Device, Diagnosis, Machine, PhaseUse, Torch
from trainperf.model import words as units
from trainperf.report.document import STEP, Page, Section

LABEL = 7
"""Columns of the names at the left, at least."""

LEAST_READ = 100 * 1024
"""Bytes a second below which what is read from a disk is not worth a word."""

_THROTTLED = 0.01
"""Share of the quota's periods from which stops are worth a line; our choice."""

_WAITING = 0.05
"""Share of the time a task waits for memory from which it is worth a line; our choice."""

_NEAR = 0.90
"""Share of the memory limit from which its use is worth a line; our choice."""


def devices(diagnosis: Diagnosis, page: Page) -> None:
    """Print how busy GPUs and host were while the script trained, and the GPU's memory."""
    evidence = diagnosis.evidence
    use = next((use for use in evidence.use if use.phase == "real"), None)
    rows: list[tuple[str, str]] = []
    if use is not None:
        rows += [
            (f"GPU {gpu['index']}", "; ".join(told))
            for gpu in use.gpu
            if (told := _gpu(gpu, evidence.machine, evidence.device, evidence.parallel_ is None))
        ]
    if told := _device_memory(evidence.torch_):
        rows.append(("Memory", "; ".join(told)))
    if use is not None and (told := _host(use, diagnosis.evidence.machine)):
        rows.append(("Host", "; ".join(told)))
    if rows:
        page.heading("Machine while training")
        label = max(LABEL, *(len(name) + 2 for name, _ in rows))
        for name, text in rows:
            page.fact(name, text, label)


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
    if (held := memory.get("allocated_peak")) is not None:
        told.append(f"tensors held {units.size(held)} at most")
    if (reserved := memory.get("reserved_peak")) is not None:
        total = memory.get("total")
        of = f" of {units.size(total)} ({units.share(reserved / total)})" if total else ""
        told.append(f"PyTorch reserved {units.size(reserved)}{of}")
    if retries := memory.get("retries"):
        told.append(f"emptied its cache to find room {units.count(retries, 'time')}")
    if ooms := memory.get("ooms"):
        told.append(f"ran out of it {units.count(ooms, 'time')}")
    return told


def _gpu(gpu: dict[str, Any], machine: Machine, device: Device, alone: bool) -> list[str]:
    """Say in words what is known of a GPU; what the driver did not say is left out.

    Of one that a training of one process does not use, where that is known, no more than that.
    """
    indices = {one.index for one in device.used}
    if indices and None not in indices and gpu["index"] not in indices and alone:
        return ["not used by this training"]
    told = []
    if (busy := gpu.get("utilization_percent")) is not None:
        told.append(f"a kernel ran {busy:.0f} % of the time")
    for key, words in (
        ("sm_active", "SMs active"),
        ("tensor_active", "tensor cores"),
        ("dram_active", "memory bandwidth"),
    ):
        if (value := gpu.get(key)) is not None:
            told.append(f"{words} {units.share(value)}")
    if (used := gpu.get("memory_used_peak")) is not None:
        cards = {card.index: card.memory_total for card in machine.gpus}
        total = cards.get(gpu["index"])
        of = f" ({units.share(used / total)})" if total else ""
        told.append(f"memory {units.size(used)}{of}")
    if (power := gpu.get("power_w")) is not None:
        told.append(f"{power:.0f} W")
    if (clock := gpu.get("sm_clock_mhz")) is not None:
        told.append(f"{clock:.0f} MHz")
    if throttle := gpu.get("throttle"):
        told.append(f"slowed down by {', '.join(throttle)}")
    return told


def limits(diagnosis: Diagnosis, page: Page) -> None:
    """Print what the container's limits cost the run, a line for each that mattered."""
    use = diagnosis.evidence.container
    if use is None or not (told := [*_cpu(use), *_memory(use)]):
        return
    contained = use.quota_cores is not None or use.memory_limit is not None
    page.heading("Limits of the container" if contained else "Limits of the machine")
    for text in told:
        page.item(text)


def _cpu(use: ContainerUse) -> list[str]:
    if use.quota_cores is None or not use.throttled_share or use.throttled_share < _THROTTLED:
        return []
    text = (
        f"CPU quota of {units.cores(use.quota_cores)}: used up in "
        f"{units.share(use.throttled_share)} of its periods"
    )
    if use.throttled_s:
        text += f"; threads stood still for {units.seconds(use.throttled_s)}, summed over cores"
    return [text]


def _memory(use: ContainerUse) -> list[str]:
    told = []
    if use.memory_limit and use.memory_peak and use.memory_peak >= _NEAR * use.memory_limit:
        told.append(
            f"Memory: {units.size(use.memory_peak)} of {units.size(use.memory_limit)} used at most"
        )
    if kills := dict(use.memory_events).get("oom_kill"):
        told.append(f"Memory: the kernel ended {kills} process{'es' if kills > 1 else ''}")
    if use.memory_pressure is not None and use.memory_pressure >= _WAITING:
        whose = "the container" if use.pressure_of == "container" else "the machine"
        told.append(f"Memory: a task of {whose} waited for it {units.share(use.memory_pressure)}")
        told[-1] += " of the time"
    if use.swapped_in:
        told.append(f"Swap: {units.size(use.swapped_in)} read back by the whole machine")
    return told


SECTIONS = (
    Section("devices", STEP + 110, devices, side="machine"),
    Section("limits", STEP + 140, limits, limits, side="machine"),
)

"""Limits of the container that the run met; nothing where it met none."""

from __future__ import annotations

from trainperf.model import ContainerUse, Diagnosis
from trainperf.model import words as units
from trainperf.report.document import Page

THROTTLED = 0.01
"""Share of the quota's periods from which stops are worth a line; our choice."""

WAITING = 0.05
"""Share of the time a task waits for memory from which it is worth a line; our choice."""

NEAR = 0.90
"""Share of the memory limit from which its use is worth a line; our choice."""


def limits(diagnosis: Diagnosis, page: Page) -> None:
    """Print what the container's limits cost the run, a line for each that mattered."""
    use = diagnosis.container
    told = [] if use is None else [*_cpu(use), *_memory(use)]
    if told:
        page.heading("Limits of the container" if _contained(use) else "Limits of the machine")
        for text in told:
            page.item(text)


def _contained(use: ContainerUse | None) -> bool:
    return use is not None and (use.quota_cores is not None or use.memory_limit is not None)


def _cpu(use: ContainerUse) -> list[str]:
    if use.quota_cores is None or not use.throttled_share or use.throttled_share < THROTTLED:
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
    if use.memory_limit and use.memory_peak and use.memory_peak >= NEAR * use.memory_limit:
        told.append(
            f"Memory: {units.size(use.memory_peak)} of {units.size(use.memory_limit)} used at most"
        )
    if kills := dict(use.memory_events).get("oom_kill"):
        told.append(f"Memory: the kernel ended {kills} process{'es' if kills > 1 else ''}")
    if use.memory_pressure is not None and use.memory_pressure >= WAITING:
        whose = "the container" if use.pressure_of == "container" else "the machine"
        told.append(f"Memory: a task of {whose} waited for it {units.share(use.memory_pressure)}")
        told[-1] += " of the time"
    if use.swapped_in:
        told.append(f"Swap: {units.size(use.swapped_in)} read back by the whole machine")
    return told

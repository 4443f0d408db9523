"""How many legs fit into the machine together, found out before they are started."""

from __future__ import annotations

from dataclasses import dataclass

import psutil

from trainperf.machine.cgroup import memory_limit
from trainperf.model import Machine, Recording

MEMORY_SHARE = 0.8
"""Of the memory that is available now, legs may take so much."""
LEAST_LEFT = 0.05
"""While legs start, less than this share of the memory left ends the latest of them."""
MANY = 10
"""More legs than this are not started together: they would wait, not run."""


@dataclass(frozen=True)
class Room:
    """How many legs may be alive together, and what sets that limit."""

    legs: int
    reason: str = ""


def room(recording: Recording, machine: Machine) -> Room:
    """Work out from what the observed run took how many such runs fit beside each other.

    `machine` is as it is now, without the run. Memory, GPU memory and `/dev/shm` count;
    what was not measured sets no limit.
    """
    limits = [Room(MANY), *_of_modes(recording, machine)]
    rss = max((one.host.rss for one in recording.samples if one.host is not None), default=0)
    if rss:
        free = machine.memory_available * MEMORY_SHARE
        limits.append(Room(int(free // rss), _text("memory", rss, machine.memory_available)))
    if recording.shm_used and machine.shm_free is not None:
        fit = int(machine.shm_free * MEMORY_SHARE // recording.shm_used)
        limits.append(Room(fit, _text("/dev/shm", recording.shm_used, machine.shm_free)))
    for gpu in recording.gpus:
        used = _gpu_memory(recording, gpu.index)
        if used and gpu.memory_total:
            first = _gpu_before(recording, gpu.index)
            free = gpu.memory_total - first
            what = f"the memory of GPU {gpu.index}"
            limits.append(Room(int(free * 0.95 // used), _text(what, used, free)))
    return min(limits, key=lambda one: one.legs)


def _of_modes(recording: Recording, machine: Machine) -> list[Room]:
    """GPUs that take one process at a time, where all do and the script uses one."""
    told = (one for events in recording.events.values() for one in events)
    used = any(gpu["used"] for one in told if one["e"] == "framework" for gpu in one["gpus"])
    if not used or {gpu.compute_mode for gpu in machine.gpus} != {"exclusive"}:
        return []
    return [Room(1, "the GPU takes one process at a time (compute mode)")]


def _gpu_before(recording: Recording, index: int) -> int:
    readings = _readings(recording, index)
    return readings[0] if readings else 0


def _gpu_memory(recording: Recording, index: int) -> int:
    """What the run took of a GPU: the most that was used, less what was before it."""
    readings = _readings(recording, index)
    return max(readings) - readings[0] if readings else 0


def _readings(recording: Recording, index: int) -> list[int]:
    return [
        gpu.memory_used
        for sample in recording.samples
        for gpu in sample.gpus
        if gpu.index == index and gpu.memory_used is not None
    ]


def _text(what: str, needed: float, free: float) -> str:
    return f"the script takes {_size(needed)} of {what}, and {_size(free)} is free"


def _size(count: float) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def memory_is_short() -> bool:
    """Whether the machine, or what this process may take of it, is next to full."""
    memory, limit = psutil.virtual_memory(), memory_limit()
    if limit is not None and limit.available < LEAST_LEFT * limit.limit:
        return True
    return bool(memory.available < LEAST_LEFT * memory.total)

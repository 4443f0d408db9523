"""How many legs fit into the machine together, found out before they are started."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import psutil

from trainperf.machine.host import memory_limit
from trainperf.model import Device, Event, Machine, Recording, Sample
from trainperf.model.words import size

MEMORY_SHARE = 0.8
"""Of the memory that is available now, legs may take so much."""
GPU_SHARE = 0.95
LEAST_LEFT = 0.05
"""While legs start, less than this share of the memory left ends the latest of them."""
MANY = 10
"""More legs than this are not started together: they would wait, not run."""
TWO = 2
"""So few legs can take turns: the script, and one beside it."""
NOT_TOLD = "nobody tells how much of the GPU's memory it takes"
CONTEXT = 2**29
"""A process takes about so many bytes of a GPU beside what its framework's allocator counts:
the CUDA context, kernels and the libraries' workspaces."""


@dataclass(frozen=True)
class Room:
    """How many legs may be alive together, and what sets that limit."""

    legs: int
    reason: str = ""


def room(recording: Recording, machine: Machine, device: Device | None = None) -> Room:
    """Work out from what the observed run took how many such runs fit beside each other.

    `machine` is as it is now, without the run, `device` what it computed on. Memory, GPU memory
    and `/dev/shm` count, but for what trainperf's probes took. What was not measured sets no limit,
    but for the memory of a GPU that the run used: where nobody tells it, two legs live together.
    """
    began = min((event["t"] for event in _events(recording, "facts")), default=math.inf)
    samples = [sample for sample in recording.samples if sample.t <= began]
    shm = machine.shm_free
    rss = max((sample.host.rss for sample in samples if sample.host is not None), default=0)
    return min(
        (
            Room(MANY),
            *_fit(rss, machine.memory_available, "memory", MEMORY_SHARE),
            *_fit(recording.shm_used or 0, shm, "/dev/shm", MEMORY_SHARE),
            *_of_gpus(recording, samples, device),
        ),
        key=lambda limit: limit.legs,
    )


def _of_gpus(
    recording: Recording, samples: Sequence[Sample], device: Device | None
) -> Sequence[Room]:
    """The room on the GPUs that the run used, by NVML and by the framework."""
    named = list(_events(recording, "framework"))
    if named and not any(gpu["used"] for framework in named for gpu in framework["gpus"]):
        return ()  # what others do on GPUs is no concern of a script on the CPU
    own = {cuda.index for cuda in device.used} if device and len(named) == 1 else set()
    limits = [*_by_driver(recording, samples, own), *_by_framework(recording)]
    return limits or [Room(TWO, NOT_TOLD)] * bool(named)


def _by_driver(
    recording: Recording, samples: Sequence[Sample], used: set[int | None]
) -> Iterator[Room]:
    """By NVML: what was taken at most beyond what was before the run.

    `used` are the GPUs that the run computed on, if they are known. What a card in MIG mode holds
    is others' as well.
    """
    for gpu in recording.gpus:
        readings = [reading for sample in samples for reading in sample.gpus]
        taken = [reading.memory_used for reading in readings if reading.index == gpu.index]
        known = [size for size in taken if size is not None]
        elsewhere = used and None not in used and gpu.index not in used
        if known and gpu.memory_total and not (elsewhere or gpu.mig):
            free, what = gpu.memory_total - known[0], f"the memory of GPU {gpu.index}"
            yield from _fit(max(known) - known[0], free, what)


def _by_framework(recording: Recording) -> Iterator[Room]:
    """By what each process that trains was told of its devices; several may share one."""
    devices: dict[str, list[Event]] = {}
    for told in _events(recording, "gpu_memory"):
        devices.setdefault(told["uuid"] or str(told["index"]), []).append(told)
    for processes in devices.values():
        needed = sum(told["reserved_peak"] + CONTEXT for told in processes)
        free = processes[-1]["free"] + sum(told["reserved"] for told in processes)
        yield from _fit(needed, free, f"the memory of GPU {processes[0]['index']}")


def _fit(needed: int, free: int | None, what: str, most: float = GPU_SHARE) -> Iterator[Room]:
    """The room where each leg needs so many bytes, and of the free ones legs may take a share."""
    if needed > 0 and free is not None:
        text = f"the script takes {size(needed)} of {what}, and {size(free)} is free"
        yield Room(int(free * most // needed), text)


def _events(recording: Recording, kind: str) -> Iterator[Event]:
    return (event for events in recording.events.values() for event in events if event["e"] == kind)


def memory_is_short() -> bool:
    """Whether the machine, or what this process may take of it, is next to full."""
    memory = psutil.virtual_memory()
    limit, left = memory_limit() or (memory.total, memory.available)
    return bool(left < LEAST_LEFT * limit or memory.available < LEAST_LEFT * memory.total)

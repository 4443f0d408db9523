"""How many legs fit into the machine together, found out before they are started."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import psutil

from trainperf.machine.host import memory_limit
from trainperf.model import Device, Event, Machine, Recording, Sample

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
    samples = before_extras(recording)
    limits = [Room(MANY)]
    rss = max((sample.host.rss for sample in samples if sample.host is not None), default=0)
    if rss:
        free = machine.memory_available * MEMORY_SHARE
        limits.append(Room(int(free // rss), _text("memory", rss, machine.memory_available)))
    if recording.shm_used and machine.shm_free is not None:
        fit = int(machine.shm_free * MEMORY_SHARE // recording.shm_used)
        limits.append(Room(fit, _text("/dev/shm", recording.shm_used, machine.shm_free)))
    limits += _of_gpus(recording, samples, device)
    return min(limits, key=lambda one: one.legs)


def before_extras(recording: Recording) -> Sequence[Sample]:
    """The samples of the script's own steps: all that come before anything is probed."""
    began = [one["t"] for one in _events(recording, "facts")]
    until = min(began, default=None)
    return [sample for sample in recording.samples if until is None or sample.t <= until]


def _of_gpus(recording: Recording, samples: Sequence[Sample], device: Device | None) -> list[Room]:
    """The room on the GPUs that the run used, by NVML and by the framework."""
    named = list(_events(recording, "framework"))
    if named and not any(gpu["used"] for framework in named for gpu in framework["gpus"]):
        return []  # what others do on GPUs is no concern of a script on the CPU
    own = {one.index for one in device.used} if device and len(named) == 1 else set()
    limits = list(_by_driver(recording, samples, own))
    limits += _by_framework(_events(recording, "gpu_memory"))
    if named and not limits:
        limits.append(Room(TWO, NOT_TOLD))
    return limits


def _by_driver(
    recording: Recording, samples: Sequence[Sample], used: set[int | None]
) -> Iterator[Room]:
    """By NVML: what was taken at most beyond what was before the run.

    `used` are the GPUs that the run computed on, if they are known. What a card in MIG mode holds
    is others' as well.
    """
    for gpu in recording.gpus:
        readings = [reading for sample in samples for reading in sample.gpus]
        taken = [one.memory_used for one in readings if one.index == gpu.index]
        known = [size for size in taken if size is not None]
        elsewhere = used and None not in used and gpu.index not in used
        if known and gpu.memory_total and not (elsewhere or gpu.mig):
            free, what = gpu.memory_total - known[0], f"the memory of GPU {gpu.index}"
            yield from _fit(max(known) - known[0], free, what)


def _by_framework(told: Iterable[Event]) -> Iterator[Room]:
    """By what each process that trains was told of its devices; several may share one."""
    devices: dict[str, list[Event]] = {}
    for finding in told:
        devices.setdefault(finding["uuid"] or str(finding["index"]), []).append(finding)
    for those in devices.values():
        needed = sum(one["reserved_peak"] + CONTEXT for one in those)
        free = those[-1]["free"] + sum(one["reserved"] for one in those)
        yield from _fit(needed, free, f"the memory of GPU {those[0]['index']}")


def _fit(needed: int, free: int, what: str) -> Iterator[Room]:
    if needed > 0:
        yield Room(int(free * GPU_SHARE // needed), _text(what, needed, free))


def _events(recording: Recording, kind: str) -> Iterator[Event]:
    return (event for events in recording.events.values() for event in events if event["e"] == kind)


def _text(what: str, needed: float, free: float) -> str:
    return f"the script takes {_size(needed)} of {what}, and {_size(free)} is free"


def _size(count: float) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def memory_is_short() -> bool:
    """Whether the machine, or what this process may take of it, is next to full."""
    memory = psutil.virtual_memory()
    limit, left = memory_limit() or (memory.total, memory.available)
    return bool(left < LEAST_LEFT * limit or memory.available < LEAST_LEFT * memory.total)

"""The devices that the training computes on, and which of NVML's GPUs these are.

CUDA counts GPUs in an order of its own, and only those that CUDA_VISIBLE_DEVICES shows. Their
UUIDs are the same in both; where the framework does not tell them, the variables do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trainperf.evidence.events import Observed, main_loop
from trainperf.evidence.facts import described
from trainperf.model import CudaDevice, Device, Event, Gpu, Machine

BY_PLACE = "PCI_BUS_ID"
"""The value of CUDA_DEVICE_ORDER with which CUDA counts as NVML does."""


def device(observed: Observed, machine: Machine) -> Device:
    """The devices that the framework computes on, as it said itself."""
    event = described(observed)
    if event is None:
        return Device("", "", 0)
    seen = event["gpus"]
    gpus = tuple(_device(one, seen, machine.gpus, observed) for one in seen)
    used = [gpu for gpu in gpus if gpu.used]
    if used:
        return Device("GPU", used[0].name or "GPU", len(used), gpus)
    return Device("CPU", machine.cpu_model, int(event["logical"] or 1), gpus)


def of_others(
    observed: Observed, processes: Iterable[Sequence[Event]], machine: Machine
) -> tuple[int, ...]:
    """NVML's indices of the GPUs that other processes of a job use, as far as they are known."""
    found = {
        gpu.index
        for process in processes
        if process is not observed.process
        and (loop := main_loop(tuple(process))) is not None
        and loop.place is not None
        for gpu in device(loop, machine).used
    }
    return tuple(sorted(index for index in found if index is not None))


def index_of(uuid: str, gpus: Sequence[Gpu]) -> int | None:
    """NVML's index of the GPU that CUDA calls by this UUID; None where it is not there."""
    gpu, _ = _by_uuid(uuid, gpus)
    return None if gpu is None else gpu.index


def _device(
    told: Event, seen: Sequence[Event], gpus: Sequence[Gpu], observed: Observed
) -> CudaDevice:
    """One device, put together from what CUDA and NVML say of it."""
    gpu, place = _found(told, seen, gpus, _variables(observed))
    return CudaDevice(
        number=told["number"],
        name=told["name"],
        used=told["used"],
        index=None if gpu is None else gpu.index,
        uuid=told["uuid"],
        memory_total=told["memory"] or _memory(gpu, place),
        compute_capability=told["capability"] or (None if gpu is None else gpu.compute_capability),
        mig=" MIG " in told["name"] or (gpu is not None and bool(gpu.mig)),
        slice=place,
    )


def _memory(gpu: Gpu | None, place: int | None) -> int | None:
    """By NVML, where CUDA does not say: of a card in MIG mode, that of the slice alone."""
    if gpu is None or (gpu.mig and place is None):
        return None
    return gpu.memory_total if place is None else gpu.slices[place].memory_total


def _variables(observed: Observed) -> Mapping[str, Any]:
    names = ("cuda_visible_devices", "cuda_device_order")
    facts = {one["k"]: one["v"] for one in observed.process if one["e"] == "fact"}
    return {name: facts.get(name) for name in names}


def _found(
    told: Event, seen: Sequence[Event], gpus: Sequence[Gpu], variables: Mapping[str, Any]
) -> tuple[Gpu | None, int | None]:
    """The GPU of NVML that a device of CUDA is, and the place of its slice; None where unsure."""
    if told["uuid"]:
        return _by_uuid(told["uuid"], gpus)
    shown = variables["cuda_visible_devices"]
    words = [word.strip() for word in shown.split(",")] if isinstance(shown, str) else None
    if words is not None and len(words) < len(seen):  # it was set when CUDA had begun
        return None, None
    word = str(told["number"]) if words is None else words[told["number"]]
    if word.startswith(("GPU-", "MIG-")):
        return _by_uuid(word, gpus)
    if len(gpus) == len(seen) == 1:  # in a container NVML shows no others either
        return (gpus[0], None) if _alike(told, gpus[0]) else (None, None)
    ordered = variables["cuda_device_order"] == BY_PLACE or len({gpu.name for gpu in gpus}) == 1
    if not ordered or not word.isdecimal():
        return None, None
    there = [gpu for gpu in gpus if gpu.index == int(word) and _alike(told, gpu)]
    return (there[0], None) if there else (None, None)


def _alike(told: Event, gpu: Gpu) -> bool:
    """Whether both give the GPU the same name; CUDA puts the slice behind it."""
    return not told["name"] or str(told["name"]).startswith(gpu.name)


def _by_uuid(uuid: str, gpus: Sequence[Gpu]) -> tuple[Gpu | None, int | None]:
    """By a UUID, or the beginning of one as the variable may have it.

    NVML puts "GPU-" or "MIG-" before it, PyTorch nothing. What CUDA calls a device in MIG mode
    by may be the UUID of the slice or that of its card. Drivers before 470 name a slice
    "MIG-GPU-", the UUID of its card, and two numbers.
    """
    plain = _plain(uuid.partition("/")[0])
    found: list[tuple[Gpu, int | None]] = []
    for gpu in gpus:
        if gpu.uuid and _plain(gpu.uuid).startswith(plain):
            found.append((gpu, None))
        found += [
            (gpu, place)
            for place, one in enumerate(gpu.slices)
            if _plain(one.uuid).startswith(plain)
        ]
    if len(found) != 1:
        return None, None
    gpu, place = found[0]
    if gpu.mig and place is None and len(gpu.slices) == 1:
        place = 0
    return gpu, place


def _plain(uuid: str) -> str:
    return uuid.lower().replace("mig-", "").replace("gpu-", "")

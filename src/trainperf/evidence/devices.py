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
    facts = {fact["k"]: fact["v"] for fact in observed.all("fact")}
    gpus = tuple(_device(told, event["gpus"], machine.gpus, facts) for told in event["gpus"])
    used = [gpu for gpu in gpus if gpu.used]
    if used:
        return Device("GPU", used[0].name or "GPU", len(used), gpus)
    return Device("CPU", machine.cpu_model, int(event["logical"] or 1), gpus)


def of_others(
    observed: Observed, processes: Iterable[Sequence[Event]], machine: Machine
) -> tuple[int, ...]:
    """NVML's indices of the GPUs that other processes of a job use, as far as they are known."""
    others = (main_loop(tuple(one)) for one in processes if one is not observed.process)
    ranks = (loop for loop in others if loop is not None and loop.place is not None)
    found = {gpu.index for loop in ranks for gpu in device(loop, machine).used}
    return tuple(sorted(index for index in found if index is not None))


def _device(
    told: Event, seen: Sequence[Event], gpus: Sequence[Gpu], facts: Mapping[str, Any]
) -> CudaDevice:
    """One device, put together from what CUDA and NVML say of it; NVML knows no slice's memory."""
    gpu = _found(told, seen, gpus, facts)
    mig = " MIG " in told["name"] or (gpu is not None and bool(gpu.mig))
    return CudaDevice(
        number=told["number"],
        name=told["name"],
        used=told["used"],
        index=None if gpu is None else gpu.index,
        uuid=told["uuid"],
        memory_total=told["memory"] or (None if gpu is None or mig else gpu.memory_total),
        compute_capability=told["capability"] or (None if gpu is None else gpu.compute_capability),
        mig=mig,
    )


def _found(
    told: Event, seen: Sequence[Event], gpus: Sequence[Gpu], facts: Mapping[str, Any]
) -> Gpu | None:
    """The GPU of NVML that a device of CUDA is; None where unsure."""
    if told["uuid"]:
        return by_uuid(told["uuid"], gpus)
    shown, number = facts.get("cuda_visible_devices"), told["number"]
    words = shown.split(",") if isinstance(shown, str) else [str(one["number"]) for one in seen]
    if len(words) < len(seen):  # it was set when CUDA had begun
        return None
    word = words[number].strip()
    if word.startswith("GPU-"):
        return by_uuid(word, gpus)
    alone = len(gpus) == len(seen) == 1  # in a container NVML shows no others either
    ordered = facts.get("cuda_device_order") == BY_PLACE or len({gpu.name for gpu in gpus}) == 1
    for gpu in gpus:  # both give a GPU the same name; CUDA puts the slice behind it
        same = not told["name"] or str(told["name"]).startswith(gpu.name)
        if same and (alone or (ordered and str(gpu.index) == word)):
            return gpu
    return None


def by_uuid(uuid: str, gpus: Sequence[Gpu]) -> Gpu | None:
    """By a UUID, or the beginning of one as the variable may have it; PyTorch's has no "GPU-"."""
    begins = uuid.lower().removeprefix("gpu-")
    named = ((gpu, (gpu.uuid or "").lower().removeprefix("gpu-")) for gpu in gpus)
    found = [gpu for gpu, name in named if name and name.startswith(begins)]
    return found[0] if len(found) == 1 else None

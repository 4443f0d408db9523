"""A step of PyTorch taken apart: its parts, what waits for the device, the GPU's memory."""

from __future__ import annotations

from dataclasses import replace

from trainperf.errors import NotMeasured
from trainperf.fixes._torch_words import call
from trainperf.model import Evidence, SyncPoint
from trainperf.model.diagnosis import DeviceMemory, ReportedPart

ORDER: tuple[str, ...] = (
    *("input", "transfer", "zero_grad", "forward", "backward", "optimizer", "sync", "rest"),
)
"""The parts as they come in most loops."""


def step_parts(evidence: Evidence) -> tuple[ReportedPart, ...]:
    """The parts of a step with their shares of its sum; empty where it was not taken apart."""
    try:
        split = evidence.torch.split
    except NotMeasured:
        return ()
    whole = sum(part.seconds for part in split)
    if whole <= 0:
        return ()
    return tuple(
        ReportedPart(part.name, part.seconds, part.seconds / whole, part.calls)
        for part in sorted(split, key=lambda part: ORDER.index(part.name))
    )


def sync_points(evidence: Evidence) -> tuple[SyncPoint, ...]:
    """The calls that wait for the device, as a reader knows them, the dearest first."""
    found = () if evidence.torch_ is None else evidence.torch_.syncs
    named = (replace(sync, what=call(sync.what)) for sync in found)
    return tuple(sorted(named, key=lambda sync: -sync.seconds))


def device_memory(evidence: Evidence) -> DeviceMemory | None:
    """What the allocator counted; None without a GPU."""
    counted = {} if evidence.torch_ is None else evidence.torch_.memory
    if not counted:
        return None
    return DeviceMemory(
        allocated_peak=counted.get("allocated_peak"),
        reserved_peak=counted.get("reserved_peak"),
        total=counted.get("total"),
        retries=counted.get("retries"),
        ooms=counted.get("ooms"),
    )

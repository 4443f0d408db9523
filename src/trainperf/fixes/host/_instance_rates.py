"""The bytes a step reads from outside the instance, against what it can take in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trainperf.fixes.common.words import MB, worth
from trainperf.fixes.host._instance_types import here, same_gpus
from trainperf.model import Evidence, Instance, InstanceType, Objects
from trainperf.recording.machine.storage import VolumeKind

AT_LIMIT = (0.80, 1.15)
"""Between these shares of what lasts and of what is reached for a while, a rate that was
measured is the instance's limit. Below it is the volume's, or the reader's own."""

SHORT = 1.10
"""How many times the rate reached the step must need."""

Limit = Callable[[InstanceType], tuple[float | None, float | None]]
"""The rates at which a type can read, bytes per second: lasting, and in bursts."""


@dataclass(frozen=True)
class Shortage:
    """An instance whose limit was reached, and the type that has more; bytes per second.

    `what` names what is read. `bound` is the upper bound of the speed-up.
    """

    instance: Instance
    own: InstanceType
    what: str
    reached: float
    needed: float
    lasts: float
    better: InstanceType
    better_lasts: float
    bound: float


@dataclass(frozen=True)
class Flow:
    """A flow of data: its name, the rate that it reached, and the one that the step needs."""

    what: str
    reached: float
    needed: float


def shortage(evidence: Evidence, flow: Flow | None, limit: Limit) -> Shortage | None:
    """Return what is lacking where the step waits for a flow at the limit of the instance.

    None where the data of an epoch fits into memory: then only the first one waits.
    Raises `NotMeasured`.
    """
    instance, own = here(evidence)
    lasts, most = limit(own)
    if flow is None or lasts is None or not evidence.input_bound:
        return None
    low, high = AT_LIMIT
    if not low * lasts <= flow.reached <= high * max(lasts, most or 0.0):
        return None
    if flow.needed < SHORT * flow.reached or _stays_in_memory(evidence, flow):
        return None
    more = [
        (kind, rate)
        for kind in same_gpus(instance)
        if (rate := limit(kind)[0]) is not None and rate > max(lasts, flow.reached)
    ]
    if not more:
        return None
    enough = [one for one in more if one[1] >= flow.needed]
    better, rate = enough[0] if enough else max(more, key=lambda one: one[1])
    step_bytes = flow.needed * evidence.times.resident
    saved = step_bytes / flow.reached - step_bytes / min(rate, flow.needed)
    bound = evidence.bound_if_input_saves(saved)
    if not worth(evidence, bound):
        return None
    return Shortage(instance, own, flow.what, flow.reached, flow.needed, lasts, better, rate, bound)


def files_on(evidence: Evidence, kinds: tuple[VolumeKind, ...]) -> Flow | None:
    """Return what is read from volumes of these kinds, None where that was not measured.

    The rate reached is the best of files that the kernel had dropped from memory, on the
    volume that the step needs most from.
    """
    found = [one for one in evidence.reads if one.volume.kind in kinds and one.needed_bytes_s]
    most = max(found, key=lambda one: one.needed_bytes_s or 0.0, default=None)
    if most is None or not most.best_cold_bytes_s:
        return None
    needed = sum(one.needed_bytes_s or 0.0 for one in found)
    return Flow(
        f"Files on {most.volume.mount} that were not in memory", most.best_cold_bytes_s, needed
    )


def objects(evidence: Evidence) -> Flow | None:
    """Return what is read from S3, None where that was not measured.

    The rate reached is the best that the probe saw at any number of requests at once.
    """
    known = [one for one in evidence.objects if one.requests_per_step and one.mean_object_bytes]
    if not known or evidence.times.resident <= 0:
        return None
    most = max(known, key=_step_bytes)
    reached = max((rate for _, rate in most.throughput), default=None)
    if not reached:
        return None
    needed = sum(_step_bytes(one) for one in known) / evidence.times.resident
    return Flow(f"Objects of {most.bucket}", reached, needed)


def rate_said(value: float) -> str:
    """Say a rate as AWS does: "87.5 MB/s"."""
    return f"{value / MB:,.3g} MB/s" if value < 1000 * MB else f"{value / MB:,.0f} MB/s"


def _step_bytes(one: Objects) -> float:
    return (one.requests_per_step or 0.0) * (one.mean_object_bytes or 0.0)


def _stays_in_memory(evidence: Evidence, flow: Flow) -> bool:
    """Whether an epoch's data fits into free memory, and is read more than once."""
    steps = evidence.loop.epoch_steps
    if not steps or evidence.loop.epochs == 1:
        return False
    return flow.needed * evidence.times.resident * steps < evidence.machine.memory_available

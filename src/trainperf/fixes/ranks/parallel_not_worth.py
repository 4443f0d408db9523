"""Several devices that together train no faster than one."""

from __future__ import annotations

import math
from typing import Any

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.cases import measure
from trainperf.fixes.common.words import ms, percent, times, worth
from trainperf.fixes.ranks._exchange import exchange_seconds, step_without_exchange
from trainperf.fixes.ranks._parallel_cases import exchange, on_gpus, parallel_evidence, rank, ranks
from trainperf.model import (
    Equivalence,
    Evidence,
    Finding,
    Missing,
    Parallel,
    ScalingPoint,
    Straggler,
    taken,
)

BREAK_EVEN = 96.0
LATE = Straggler(1, "input", 0.045, 0.45, "its input takes 47.0 ms a step, that of rank 0 2.0 ms")


def _slow(
    *points: ScalingPoint,
    alone: float | None = 0.030,
    batch: float | None = BREAK_EVEN,
    **more: Any,
) -> Evidence:
    """Two ranks whose step of 100 ms takes 30 ms without exchange; `alone=None`: not known."""
    cost = None if alone is None else 0.100 - alone
    own = ranks(2, local=measure(alone))
    job = {
        "processes": own,
        "exchange": exchange(cost, 0.0),
        "scaling": points,
        "break_even_batch_": Missing("not known") if batch is None else batch,
        **more.pop("parallel", {}),
    }
    return parallel_evidence(parallel=job, **more)


def _points(one: float, two: float, rate: bool = True) -> tuple[ScalingPoint, ...]:
    return (
        ScalingPoint(1, one, 32 / one if rate else None, 1.0),
        ScalingPoint(2, two, 64 / two if rate else None, one / two),
    )


class NotWorthIt(Fix):
    """Train on one device, or give each more to do.

    ## Why it is slow
    N devices do N batches in a step, but the step is longer by the exchange of gradients.
    Where a batch is quickly computed and the gradients are large, the exchange takes more
    than the other devices add, and the job does fewer samples per second than one alone.

    ## What changes
    One device trains with its own batch, or each device gets a larger one: the exchange
    costs the same, and the computing between two exchanges grows. Both change the global
    batch, and so the course of training.

    ## When not to
    - When a cheaper exchange is at hand: buckets, compression, accumulation, NCCL.
    - When the model does not fit on one device.
    - Adjust the learning rate to the global batch, and compare the accuracy reached.
    """

    category = "model"
    equivalence = Equivalence.SEMANTICS
    without_edit = "the script is started on fewer devices, which changes the global batch"
    framework = "any"

    silent = [
        parallel_evidence(),
        parallel_evidence(parallel_=None),
        parallel_evidence("tensorflow"),
        # two do more than one, by what was measured, whatever the estimate says
        _slow(*_points(0.060, 0.100)),
        _slow(alone=0.070),
        # they would, if they did not wait for one
        _slow(*_points(0.030, 0.100), parallel={"stragglers": (LATE,)}),
        # as much, within the noise
        _slow(*_points(0.0495, 0.100)),
        # neither runs on fewer devices nor the exchange were measured
        _slow(alone=None),
        _slow(alone=None, parallel={"exchange": None}),
        _slow(*_points(0.030, 0.100)[1:], alone=0.080),
    ]
    fires = [
        _slow(*_points(0.030, 0.100)),
        _slow(*_points(0.030, 0.100, rate=False), batch=None),
        _slow(*_points(0.010, 0.100), parallel={"stragglers": (LATE,)}),
        # by the step without exchange alone
        _slow(),
        _slow(**on_gpus()),
        _slow(parallel={"processes": (rank(0, local=measure(0.02)),) * 2}, batch=None),
        parallel_evidence(
            "tensorflow",
            parallel={"exchange": exchange(0.060, method="MirroredStrategy", backend="")},
        ),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a job that does fewer samples per second than one of its devices would."""
        job = evidence.parallel
        count = max(job.replicas, job.expected)
        measured = _measured(job)
        if measured is None:
            ratio = evidence.times.real / (count * step_without_exchange(evidence))
        else:
            ratio = measured * _without_late(evidence)
        if not worth(evidence, ratio):
            return None
        upper = ratio if measured is not None or evidence.device.kind == "GPU" else None
        return self.finding(
            title=f"{count} devices {'train' if measured else 'may train'} no faster than one",
            text=_text(evidence, count, measured, ratio),
            bound=upper,
            bound_basis=_basis(evidence, measured, upper),
            advice=_advice(evidence),
            snippet=_snippet(evidence),
        )


def _measured(job: Parallel) -> float | None:
    """Samples per second of one device over those of all, by runs; None without them."""
    points = {point.devices: point for point in job.scaling}
    count = max(points, default=0)
    if 1 not in points or count < 2:
        return None
    one, all_ = points[1], points[count]
    if one.samples_per_s and all_.samples_per_s:
        return one.samples_per_s / all_.samples_per_s
    return all_.real_s / (count * one.real_s)


def _without_late(evidence: Evidence) -> float:
    """The part of a step that is left where no rank is waited for: that is repaired apart."""
    late = max((one.behind_s for one in evidence.parallel.stragglers), default=0.0)
    return max(0.0, 1 - late / evidence.times.real)


def _text(evidence: Evidence, count: int, measured: float | None, ratio: float) -> str:
    real = ms(evidence.times.real)
    if measured is not None:
        one = next(point for point in evidence.parallel.scaling if point.devices == 1)
        text = (
            f"On one device a step takes {ms(one.real_s)}, on {count} together {real}, with the "
            f"same batch on each: one alone does {times(measured)} the samples per second"
        )
        late = evidence.parallel.stragglers
        text += f", {times(ratio)} if nobody waited for rank {late[0].rank}." if late else "."
    else:
        alone = step_without_exchange(evidence)
        text = (
            f"A step takes {real}, and {ms(alone)} without the exchange of gradients. {count} "
            f"devices do {count} batches in it; one alone, exchanging nothing, would do "
            f"{times(ratio)} the samples per second."
        )
    try:
        cost = exchange_seconds(evidence)
    except NotMeasured:
        return text
    return f"{text} The exchange takes {ms(cost)} ({percent(cost / evidence.times.real)})."


def _basis(evidence: Evidence, measured: float | None, upper: float | None) -> str:
    if measured is not None and evidence.parallel.stragglers:
        return "samples per second on one device, measured, less the wait for a late rank"
    if measured is not None:
        return "samples per second on one device, measured"
    if upper is None:
        return "where replicas share cores, one alone would have more of them"
    return "samples per second of one device, by its step without exchange"


def _break_even(evidence: Evidence) -> int | None:
    """Samples per device from which they pay; None if that is not known."""
    try:
        return math.ceil(taken(evidence.parallel.break_even_batch_))
    except NotMeasured:
        return None


def _advice(evidence: Evidence) -> str:
    batch = _break_even(evidence)
    more = f"more than about {batch:,} samples" if batch else "more samples"
    return (
        f"Train on one device, or give each {more} per step, with the learning rate adjusted to "
        "the global batch."
    )


def _snippet(evidence: Evidence) -> str:
    batch = _break_even(evidence)
    if batch is None:
        return ""
    return f"batch_size = {2 * batch}  # per device; they pay from about {batch} on"

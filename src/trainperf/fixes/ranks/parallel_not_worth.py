"""Several devices that together train no faster than one."""

from __future__ import annotations

import math

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.words import ms, percent, times, worth
from trainperf.fixes.ranks._exchange import exchange_seconds, step_without_exchange
from trainperf.model import Equivalence, Evidence, Finding, Parallel, taken


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

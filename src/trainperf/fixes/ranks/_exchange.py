"""The exchange's cost to a step, and what doing less of it can save."""

from __future__ import annotations

from trainperf.errors import NotMeasured
from trainperf.fixes.cause import Saving, Unpriced
from trainperf.fixes.common.words import if_measured, measured_or, ms
from trainperf.fixes.torch_step._step import part_seconds
from trainperf.model import Evidence, Exchange, Missing, is_taken, taken
from trainperf.model.words import size

WORTH_CHANGING = 0.10
"""Share of a step from which its exchange is worth tuning (PyTorch's TensorBoard plugin)."""

AT_MOST_ALL = "no time spent on the exchange, but for what the backward cannot hide of it"
"""The basis of `hidden_seconds`."""


def exchange(evidence: Evidence) -> Exchange:
    """Return how gradients are exchanged; raises `NotMeasured` where nothing was seen of it."""
    found = evidence.parallel.exchange
    if found is None:
        raise NotMeasured("no exchange of gradients was seen")
    return found


def exchange_seconds(evidence: Evidence) -> float:
    """Return the seconds of a step that the exchange adds; raises `NotMeasured`.

    A difference whose interval reaches down to nothing counts as not measured.
    """
    measured = taken(exchange(evidence).seconds_)
    if measured.seconds <= 0 or (measured.low is not None and measured.low <= 0):
        raise NotMeasured("what the exchange takes does not stand out of the noise")
    return measured.seconds


def exchange_at_most(evidence: Evidence) -> float:
    """Return the same, the upper end of it where it does not stand out; raises `NotMeasured`.

    For causes that are certain by counting, whatever the noise: only their price is not.
    """
    measured = taken(exchange(evidence).seconds_)
    sure = measured.low is not None and measured.low > 0
    return measured.seconds if sure or measured.high is None else measured.high


def stands_out(evidence: Evidence, least: float = 0.0) -> bool:
    """Whether the exchange surely takes something of a step, and at least such a share."""
    return measured_or(False, lambda: exchange_seconds(evidence) / evidence.times.real >= least)


def price_without(evidence: Evidence, basis: str) -> Saving | Unpriced:
    """Return what a step without its exchange saves; unpriced where that was not measured."""
    if not stands_out(evidence):
        return Unpriced("not measured", of="step")
    return Saving(basis, exchange_seconds(evidence))


def hidden_seconds(evidence: Evidence) -> float:
    """Return the seconds that go if all but the all-reduces costs nothing; raises `NotMeasured`.

    They overlap with the backward, which waits for them at its end; what they take alone beyond
    what it takes without that wait stays, where both were measured.
    """
    found, seconds = exchange(evidence), exchange_at_most(evidence)
    try:
        backward = max(0.0, part_seconds(evidence, "backward") - seconds)
    except NotMeasured:
        return seconds
    if isinstance(found.all_reduce, Missing):
        return seconds
    return seconds - min(seconds, max(0.0, found.all_reduce.seconds - backward))


def sent_seconds(evidence: Evidence) -> float:
    """Return the seconds that go if no bytes are moved, at most; raises `NotMeasured`.

    An all-reduce alone reads and writes each gradient at least as often as copies to buckets
    and back do, over links that are no faster than memory; the rest waits for a late rank.
    """
    seconds, alone = exchange_at_most(evidence), exchange(evidence).all_reduce
    return seconds if isinstance(alone, Missing) else min(seconds, alone.seconds)


def exchange_said(evidence: Evidence) -> str:
    """Say it: "Each step exchanges 100 MiB of gradients over gloo (40.0 ms of its 100 ms)"."""
    found = exchange(evidence)
    much = f"{size(found.bytes)} of gradients" if found.bytes else "gradients"
    over = f" over {found.backend}" if found.backend else ""
    cost = if_measured(
        lambda: f" ({ms(exchange_seconds(evidence))} of its {ms(evidence.times.real)})"
    )
    return f"Each step exchanges {much}{over}{cost}"


def step_without_exchange(evidence: Evidence) -> float:
    """Return the seconds of a step with the exchange switched off; raises `NotMeasured`.

    It is the slowest rank's local step where all ranks were timed so, else the real
    step less what the exchange adds.
    """
    local = [rank.local for rank in evidence.parallel.processes]
    if len(local) > 1 and all(is_taken(step) for step in local):
        return max(taken(step).seconds for step in local)
    return max(evidence.times.real - exchange_seconds(evidence), 1e-9)

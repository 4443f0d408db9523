"""The cost of exchanging gradients in a step, and by what it is made."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from trainperf.child.timing.estimating import estimate
from trainperf.evidence.events import Observed, read_as
from trainperf.evidence.ranks import NOT_SWITCHED
from trainperf.model import (
    AllReduce,
    Ddp,
    Exchange,
    Measure,
    Missing,
    Rank,
    Site,
    Strategy,
)
from trainperf.model.parallel import NOT_TIMED

DDP = "DistributedDataParallel"

LONGER = Missing("a step took longer without the exchange than with it: the machine was not quiet")
ODD = 0.05
"""By so much of a step it has to be longer, beyond its interval."""


def exchange(ranks: Sequence[Rank], lead: Observed, replicas: int) -> Exchange | None:
    """The exchange of gradients; None if none that trainperf knows was seen.

    `ranks` are those that reported, `lead` is what one of them recorded of the job.
    """
    event, spread = lead.last("exchange"), strategy(lead)
    if event is None:  # it was not timed
        if spread is not None and spread.replicas > 1:
            event = {"method": spread.cls, "backend": spread.cross_device_ops}
        elif lead.last("ddp") is not None and lead.place is not None:
            event = {"method": DDP, "backend": lead.place.get("backend")}
        else:
            return None
    alone = lead.last("all_reduce")
    timed = alone is not None and alone.get("seconds") and int(alone.get("devices") or 0) > 1
    return Exchange(
        method=str(event["method"]),
        backend=str(event.get("backend") or ""),
        replicas=int(event.get("replicas") or replicas),
        seconds_=cost(ranks),
        waiting_=waiting(ranks),
        bytes=event.get("bytes"),
        buckets=tuple(event.get("buckets") or ()),
        all_reduce=(
            read_as(AllReduce, alone)
            if alone is not None and timed
            else lead.missing("all_reduce", NOT_TIMED.reason)
        ),
    )


def cost(ranks: Sequence[Rank]) -> Measure | Missing:
    """Seconds that the exchange adds to a step: real less local, of the slowest rank.

    All ranks wait for the one whose own work takes longest, so what its step has beyond
    that work is the exchange itself. Both times are of one process and of phases that
    alternate, so the interval is that of their pairs: what drifts, drifts in both.
    Never below 0 nor above the step; `low` is 0 where the interval contains it. Steps that
    surely take much longer without the exchange were held up by something else, and tell
    nothing.
    """
    timed = [(rank.local, rank.real) for rank in ranks if isinstance(rank.local, Measure)]
    if not timed:
        return _why(ranks)
    local, real = max(timed, key=lambda pair: pair[0].seconds)
    if isinstance(real, Missing):
        return real
    half, seconds = None, real.seconds - local.seconds
    if len(real.blocks) == len(local.blocks) > 0:
        pairs = zip(real.blocks, local.blocks, strict=True)
        half = estimate([with_it - without for with_it, without in pairs]).half
    elif real.high is not None and local.high is not None:
        half = math.hypot(real.noise * real.seconds, local.noise * local.seconds)
    found = Measure(max(0.0, seconds), min(real.steps, local.steps), ())
    if half is None:
        return found
    if seconds + half < -ODD * real.seconds:
        return LONGER
    low, high = max(0.0, seconds - half), max(0.0, seconds + half)
    return replace(found, low=low, high=min(real.seconds, high))


def waiting(ranks: Sequence[Rank]) -> float | Missing:
    """Seconds that the mean rank waits for the slowest in each step.

    By the steps without exchange, in which no rank waits for another. None waits for
    longer than its real step has beyond its own work.
    """
    if len(ranks) < 2:
        return Missing("one process runs all replicas")
    timed = [(rank.local, rank.real) for rank in ranks if isinstance(rank.local, Measure)]
    if len(timed) < 2:
        return _why(ranks)
    slowest = max(local.seconds for local, _ in timed)
    longest = (
        (local, slowest if isinstance(real, Missing) else real.seconds) for local, real in timed
    )
    return statistics.fmean(max(0.0, min(slowest, most) - local.seconds) for local, most in longest)


def ddp(lead: Observed) -> tuple[Ddp, ...]:
    """The `DistributedDataParallel`s of the process; of each, what was said last."""
    found: dict[tuple[str, Site | None], Ddp] = {}
    for event in lead.all("ddp"):
        wrapper = read_as(Ddp, event)
        found[wrapper.model, wrapper.where] = wrapper
    return tuple(found.values())


def strategy(lead: Observed) -> Strategy | None:
    """The `tf.distribute` strategy of the process, by what was said of it last."""
    event = lead.last("tf_strategy")
    return None if event is None else read_as(Strategy, event)


def _why(ranks: Sequence[Rank]) -> Missing:
    """Why the step was not timed without exchange: in the words of the first rank."""
    reasons = (rank.local for rank in ranks if isinstance(rank.local, Missing))
    return next(reasons, Missing(NOT_SWITCHED))

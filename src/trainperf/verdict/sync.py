"""Verdicts on a job of several ranks or replicas: their exchange, and who waits for whom."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from trainperf.fixes.common.words import ms, percent
from trainperf.model import (
    AllReduce,
    Bottleneck,
    Evidence,
    Exchange,
    Measure,
    Missing,
    Parallel,
    Straggler,
)
from trainperf.model.words import size

EXPOSED = 0.10
"""An exchange beyond this share of a step is what it is bound by (tb_plugin: 10 %)."""

VARYING = 8.0
"""An exchange that takes so many times its all-reduces alone, which are short against a
step, is mostly waiting for whichever rank is late (sharing cores with training, all-reduces
took two to three times what they take alone)."""

MOST = 0.5
"""A straggler's input is what a job waits for if it is so much of all waiting for input."""


def sync_bound(evidence: Evidence) -> tuple[Bottleneck, str] | None:
    """The step is bound by exchanging gradients, or by waiting for a rank that is late.

    None where neither takes more than a tenth of it, beyond the noise, or where more of
    it is lost to the input of all ranks.
    """
    job, real = evidence.parallel_, evidence.times.real_
    if job is None or isinstance(real, Missing) or real.seconds <= 0:
        return None
    exchange, late = _exchange_s(job, real.seconds), _latest(job)
    lost = _input_s(evidence)
    if late is not None and late.behind_s >= exchange:
        own = MOST * lost if late.phase == "input" else lost
        if late.behind_s >= own:
            return "sync", _waiting(job, late)
    if exchange and exchange >= lost:
        assert job.exchange is not None
        return "sync", _exchanging(job, job.exchange, exchange / real.seconds)
    return None


def hidden_share(evidence: Evidence) -> float:
    """The share of a step that the exchange takes at most, where the noise hides how much.

    0 where it was told apart, or where it is no more than a tenth.
    """
    job, real = evidence.parallel_, evidence.times.real_
    cost = None if job is None or job.exchange is None else job.exchange.seconds_
    if not isinstance(cost, Measure) or isinstance(real, Missing) or real.seconds <= 0:
        return 0.0
    if cost.low is None or cost.low > 0 or cost.high is None:
        return 0.0
    share = min(1.0, cost.high / real.seconds)
    return share if share > EXPOSED else 0.0


def _exchange_s(job: Parallel, real: float) -> float:
    """Seconds of a step that the exchange surely takes; 0 where it is within the noise."""
    cost = None if job.exchange is None else job.exchange.seconds_
    if not isinstance(cost, Measure) or not cost.low:
        return 0.0
    return cost.seconds if cost.seconds > EXPOSED * real else 0.0


def _latest(job: Parallel) -> Straggler | None:
    """The rank that is furthest behind, if by more than a tenth of a step."""
    late = (one for one in job.stragglers if one.share > EXPOSED)
    return max(late, key=lambda one: one.behind_s, default=None)


def _input_s(evidence: Evidence) -> float:
    """Seconds of a step that are lost to the input, if it is bound by that."""
    resident = evidence.times.resident_
    if isinstance(resident, Missing) or not evidence.input_bound:
        return 0.0
    return evidence.times.real - resident.seconds


def _exchanging(job: Parallel, exchange: Exchange, share: float) -> str:
    many = f"{job.expected} ranks" if job.expected > 1 else f"{exchange.replicas} replicas"
    if 1 < job.expected < exchange.replicas:
        many = f"{exchange.replicas} replicas in {many}"
    how = ", ".join(filter(None, (exchange.method, exchange.backend)))
    alone = exchange.all_reduce
    if isinstance(alone, AllReduce) and not job.unmeasured and _varies(exchange, alone, share):
        return (
            f"Sync-bound: {percent(share)} of each step passes in waiting of {many} for one "
            f"another: what each takes varies from step to step, while the exchange itself "
            f"({how}) takes {ms(alone.seconds)} alone."
        )
    text = f"Sync-bound: {percent(share)} of each step passes in the exchange of gradients "
    text += f"between {many} ({how})"
    if unknown := job.unmeasured:
        text += f", or in waiting for {_named(unknown)} that left no step"
    if exchange.bytes:
        text += f"; each sends {size(exchange.bytes)} a step"
    return f"{text}."


def _varies(exchange: Exchange, alone: AllReduce, share: float) -> bool:
    """Whether the exchange is too short to take what was measured."""
    step = exchange.seconds / share
    return exchange.seconds > VARYING * alone.seconds and alone.seconds < EXPOSED / 2 * step


def _waiting(job: Parallel, late: Straggler) -> str:
    text = (
        f"Sync-bound: {percent(min(1.0, late.share))} of each step passes in waiting for rank "
        f"{late.rank}"
    )
    others = [one for one in job.stragglers if one.rank != late.rank and one.share > EXPOSED]
    if others:
        text += f" (and {len(others)} more)"
    rank = next((one for one in job.processes if one.rank == late.rank), None)
    if rank is not None and isinstance(rank.local, Measure):
        own = ms(rank.local.seconds)
        text += f", whose own step takes {own}, {_usual(job)} {ms(_usual_s(job))}"
    if late.cause:
        return f"{text}: {late.cause}."
    return f"{text}: its input." if late.phase == "input" else f"{text}."


def _usual_s(job: Parallel) -> float:
    """A step of the median rank without exchange: of two, of the quicker one."""
    own = [one.local.seconds for one in job.processes if isinstance(one.local, Measure)]
    return statistics.median_low(own)


def _usual(job: Parallel) -> str:
    """The figure that a rank's is compared with: of two, the other one's."""
    others = [one.rank for one in job.processes if one.rank != job.stragglers[0].rank]
    two = len(job.processes) == 2 and len(job.stragglers) == 1
    return f"that of rank {others[0]}" if two else "that of the median rank"


def _named(ranks: Sequence[int]) -> str:
    """A rank by its number, several by how many they are."""
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"{len(ranks):,} ranks"

"""Answers for a job of several ranks or replicas: their exchange, and who waits for whom."""

from __future__ import annotations

import statistics

from trainperf.fixes.common.words import ms, percent
from trainperf.model import AllReduce, Evidence, Exchange, Measure, Missing, Parallel, Straggler
from trainperf.model.words import ranks, size
from trainperf.verdict.answer import Answer, Case

EXPOSED = 0.10
"""An exchange beyond this share of a step is what it is bound by (tb_plugin: 10 %)."""

VARYING = 8.0
"""An exchange that takes so many times its all-reduces alone, which are short against a
step, is mostly waiting for whichever rank is late (sharing cores with training, all-reduces
took two to three times what they take alone)."""

MOST = 0.5
"""A straggler's input is what a job waits for if it is so much of all waiting for input."""


def sync_bound(case: Case) -> Answer | None:
    """The step is bound by exchanging gradients, or by waiting for a rank that is late.

    None where neither takes more than a tenth of it, beyond the noise, or where more of
    it is lost to the input of all ranks.
    """
    evidence = case.evidence
    job, step = evidence.parallel_, evidence.times.real
    if job is None:
        return None
    resident = evidence.times.resident_
    lost = 0.0
    if isinstance(resident, Measure) and evidence.input_bound:
        lost = step - resident.seconds
    cost = None if job.exchange is None else job.exchange.seconds_
    sure = isinstance(cost, Measure) and cost.low and cost.seconds > EXPOSED * step
    exchange_s = cost.seconds if isinstance(cost, Measure) and sure else 0.0
    stragglers = (straggler for straggler in job.stragglers if straggler.share > EXPOSED)
    late = max(stragglers, key=lambda straggler: straggler.behind_s, default=None)
    if late is not None:
        own = MOST * lost if late.phase == "input" else lost
        if late.behind_s >= max(exchange_s, own):
            return Answer("sync", _waiting(job, late))
    if job.exchange is not None and exchange_s and exchange_s >= lost:
        return Answer("sync", _exchanging(job, job.exchange, exchange_s, step))
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


def _exchanging(job: Parallel, exchange: Exchange, seconds: float, step: float) -> str:
    many = f"{job.expected} ranks" if job.expected > 1 else f"{exchange.replicas} replicas"
    if 1 < job.expected < exchange.replicas:
        many = f"{exchange.replicas} replicas in {many}"
    how = ", ".join(filter(None, (exchange.method, exchange.backend)))
    alone, unknown = exchange.all_reduce, job.unmeasured
    text = f"Sync-bound: {percent(seconds / step)} of each step passes in "
    if isinstance(alone, AllReduce) and not unknown:
        short = alone.seconds < EXPOSED / 2 * step
        if short and exchange.seconds > VARYING * alone.seconds:
            return (
                f"{text}waiting of {many} for one another: what each takes varies from step to "
                f"step, while the exchange itself ({how}) takes {ms(alone.seconds)} alone"
            )
    text += f"the exchange of gradients between {many} ({how})"
    if unknown:
        text += f", or in waiting for {ranks(unknown)} that left no step"
    return f"{text}; each sends {size(exchange.bytes)} a step" if exchange.bytes else text


def _waiting(job: Parallel, late: Straggler) -> str:
    text = (
        f"Sync-bound: {percent(min(1.0, late.share))} of each step passes in waiting for rank "
        f"{late.rank}"
    )
    others = [straggler for straggler in job.stragglers if straggler.rank != late.rank]
    if more := sum(straggler.share > EXPOSED for straggler in others):
        text += f" (and {more} more)"
    own = {
        rank.rank: rank.local.seconds for rank in job.processes if isinstance(rank.local, Measure)
    }
    if late.rank in own:
        usual = "that of the median rank"
        if len(job.processes) == 2 and not others:  # the quicker one
            (quicker,) = {rank.rank for rank in job.processes} - {late.rank}
            usual = f"that of rank {quicker}"
        median = ms(statistics.median_low(own.values()))
        text += f", whose own step takes {ms(own[late.rank])}, {usual} {median}"
    cause = late.cause or ("its input" if late.phase == "input" else "")
    return f"{text}: {cause}" if cause else text

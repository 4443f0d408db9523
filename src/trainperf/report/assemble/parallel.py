"""The ranks of a job and the exchange between them, as reported."""

from __future__ import annotations

from trainperf.evidence.events import read_as
from trainperf.model import Evidence, Exchange, Measure, Missing, Parallel, Rank
from trainperf.model.reported_parallel import (
    ReportedExchange,
    ReportedParallel,
    ReportedRank,
)


def parallel(evidence: Evidence) -> ReportedParallel | None:
    """The job's ranks and their exchange; None for one process on one device."""
    job = evidence.parallel_
    if job is None:
        return None
    real = evidence.times.real_
    even = job.break_even_batch_
    return read_as(
        ReportedParallel,
        vars(job),
        ranks=_ranks(job),
        exchange=None if job.exchange is None else _exchange(job.exchange, _seconds(real)),
        break_even_batch=None if isinstance(even, Missing) else even,
        strategy=evidence.strategy,
    )


def _ranks(job: Parallel) -> tuple[ReportedRank, ...]:
    own = [rank.local.seconds for rank in job.processes if isinstance(rank.local, Measure)]
    slowest = max(own) if len(own) > 1 else None
    return tuple(_rank(rank, slowest) for rank in job.processes)


def _rank(rank: Rank, slowest: float | None) -> ReportedRank:
    local, real = _seconds(rank.local), _seconds(rank.real)
    waits = None if slowest is None or local is None else slowest - local
    if waits is not None and local is not None and real is not None:
        waits = max(0.0, min(waits, real - local))  # the slowest's was timed on other samples
    return read_as(
        ReportedRank,
        vars(rank),
        real_s=real,
        resident_s=_seconds(rank.resident),
        local_s=local,
        input_s=_seconds(rank.input_),
        waits_s=waits,
    )


def _exchange(found: Exchange, real: float | None) -> ReportedExchange:
    cost = found.seconds_ if isinstance(found.seconds_, Measure) else None
    return read_as(
        ReportedExchange,
        vars(found),
        seconds_per_step=None if cost is None else cost.seconds,
        low_s=None if cost is None else cost.low,
        high_s=None if cost is None else cost.high,
        share=None if cost is None or not real else cost.seconds / real,
        waiting_s=None if isinstance(found.waiting_, Missing) else found.waiting_,
        all_reduce=None if isinstance(found.all_reduce, Missing) else found.all_reduce,
    )


def _seconds(measure: Measure | Missing) -> float | None:
    return measure.seconds if isinstance(measure, Measure) else None

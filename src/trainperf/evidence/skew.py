"""Ranks that the others wait for."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from trainperf.evidence.causes import causes, phase
from trainperf.model import Measure, Rank, Sample, Straggler

BEHIND = 0.10
"""A rank this much slower than the median is a straggler (TraceML warns at 10 %)."""


def stragglers(ranks: Sequence[Rank], samples: Sequence[Sample] = ()) -> tuple[Straggler, ...]:
    """The ranks that hold the others up, the one furthest behind first.

    By the steps without exchange, in which each rank runs free. Where those were not
    timed, by the input alone, as far as the job waits for input at all. A rank counts
    from 10 % behind the median rank (of two: the quicker one), beyond the noise of both.
    """
    free = [(rank, rank.local) for rank in ranks if isinstance(rank.local, Measure)]
    if len(free) < 2:
        return _by_input(ranks, samples)
    middle = median([rank for rank, _ in free], [own.seconds for _, own in free])
    usual = middle.local
    assert isinstance(usual, Measure)
    late = {
        rank.rank: (own.seconds - usual.seconds) * _within(rank, own)
        for rank, own in free
        if _stands_out(own, usual)
    }
    found = [
        Straggler(
            rank=rank.rank,
            phase=phase(rank, middle, late[rank.rank]),
            behind_s=late[rank.rank],
            share=late[rank.rank] / _real(rank, own),
            cause="; ".join(causes(rank, middle, ranks, late, samples)),
        )
        for rank, own in free
        if rank.rank in late
    ]
    return tuple(sorted(found, key=lambda one: (-one.behind_s, one.rank)))


def median(ranks: Sequence[Rank], seconds: Sequence[float]) -> Rank:
    """The rank in the middle; of two in the middle, the quicker one."""
    middle = statistics.median_low(seconds)
    return ranks[list(seconds).index(middle)]


def _by_input(ranks: Sequence[Rank], samples: Sequence[Sample]) -> tuple[Straggler, ...]:
    """Stragglers by the input alone: ranks drain it without waiting for each other."""
    timed = [(rank, rank.input_) for rank in ranks if isinstance(rank.input_, Measure)]
    waits = [
        rank.real.seconds - rank.resident.seconds
        for rank in ranks
        if isinstance(rank.real, Measure) and isinstance(rank.resident, Measure)
    ]
    if len(timed) < 2 or not waits:
        return ()
    middle = median([rank for rank, _ in timed], [own.seconds for _, own in timed])
    usual = middle.input_
    assert isinstance(usual, Measure)
    lost = statistics.median(waits)
    late = {
        rank.rank: min(own.seconds - usual.seconds, lost)
        for rank, own in timed
        if _stands_out(own, usual)
    }
    found = []
    for rank, own in timed:
        step = _step(rank, own)
        if late.get(rank.rank, 0.0) < BEHIND * step:
            continue
        behind = late[rank.rank]
        cause = "; ".join(causes(rank, middle, ranks, late, samples))
        found.append(Straggler(rank.rank, "input", behind, behind / step, cause))
    return tuple(sorted(found, key=lambda one: (-one.behind_s, one.rank)))


def _stands_out(own: Measure, usual: Measure) -> bool:
    noise = own.noise * own.seconds + usual.noise * usual.seconds
    return own.seconds - usual.seconds > max(BEHIND * usual.seconds, noise)


def _real(rank: Rank, otherwise: Measure) -> float:
    """The real step of a rank; its own work where that was not timed."""
    found = rank.real.seconds if isinstance(rank.real, Measure) else otherwise.seconds
    return max(found, 1e-9)


def _within(rank: Rank, own: Measure) -> float:
    """By how much its own work, timed over other samples, is to be shortened to fit its step.

    Nobody waits longer for a rank than a step takes. 1 where its work fits.
    """
    return min(1.0, _real(rank, own) / max(own.seconds, 1e-9))


def _step(rank: Rank, otherwise: Measure) -> float:
    """The real step of a rank; its own work where that was not timed."""
    return max(
        rank.real.seconds if isinstance(rank.real, Measure) else 0.0, otherwise.seconds, 1e-9
    )

"""Ranks that the others wait for."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from trainperf.fixes.common.words import ms
from trainperf.model import Measure, Missing, Rank, Sample, Straggler
from trainperf.model.words import ranks as ranks_in_words

BEHIND = 0.10
"""A rank this much slower than the median is a straggler (TraceML warns at 10 %)."""

_EXPLAINS = 0.5
"""The share of a rank's delay from which a part of its step is named as the cause."""

_SLOWER_CLOCK = 0.95
"""A GPU whose clock is below this share of another's is told apart from it."""

_FULLER_BATCH = 1.05
"""A batch larger than another by less is larger by a rest of samples."""


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
            phase=_phase(rank, middle, late[rank.rank]),
            behind_s=late[rank.rank],
            share=late[rank.rank] / _real(rank, own),
            cause="; ".join(_causes(rank, middle, ranks, late, samples)),
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
        step = max(_real(rank, own), own.seconds)
        if late.get(rank.rank, 0.0) < BEHIND * step:
            continue
        behind = late[rank.rank]
        cause = "; ".join(_causes(rank, middle, ranks, late, samples))
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


def _phase(rank: Rank, middle: Rank, behind: float) -> str:
    """Where a delay against the median rank shows: "input" or "step"."""
    if isinstance(rank.input_, Missing) or isinstance(middle.input_, Missing):
        return "step"
    longer = rank.input_.seconds - middle.input_.seconds
    return "input" if longer >= _EXPLAINS * behind else "step"


def _causes(
    rank: Rank,
    middle: Rank,
    ranks: Sequence[Rank],
    late: dict[int, float],
    samples: Sequence[Sample],
) -> Iterator[str]:
    """The differences of the rank from the median one, likeliest first."""
    if _phase(rank, middle, late[rank.rank]) == "input":
        assert isinstance(rank.input_, Measure)
        assert isinstance(middle.input_, Measure)
        own, other = ms(rank.input_.seconds), ms(middle.input_.seconds)
        yield f"its input takes {own} a step, that of rank {middle.rank} {other}"
    own_batch, usual_batch = rank.batch_size, middle.batch_size
    if own_batch and usual_batch and own_batch > _FULLER_BATCH * usual_batch:
        yield (f"its batch holds {own_batch:,} samples, that of rank {middle.rank} {usual_batch:,}")
    if rank.threads and middle.threads and rank.threads < middle.threads:
        own_threads = "1 thread" if rank.threads == 1 else f"{rank.threads} threads"
        yield f"it computes with {own_threads}, rank {middle.rank} with {middle.threads}"
    yield from _cores(rank, middle, ranks)
    yield from _gpu(rank, middle, samples)
    yield from _host(rank, ranks, late)


def _cores(rank: Rank, middle: Rank, ranks: Sequence[Rank]) -> Iterator[str]:
    """Fewer cores than the median rank has, or cores that more threads want than there are."""
    if rank.cores is None or middle.cores is None:
        return
    if len(rank.cores) < len(middle.cores):
        own = "1 core" if len(rank.cores) == 1 else f"{len(rank.cores)} cores"
        yield f"it may run on {own}, rank {middle.rank} on {len(middle.cores)}"
    sharing = _sharing(rank, ranks)
    if len(sharing) > len(_sharing(middle, ranks)) and sharing:
        yield f"{ranks_in_words(sharing)} may run on its cores as well"


def _sharing(rank: Rank, ranks: Sequence[Rank]) -> list[int]:
    """The other ranks of its host that may run on cores of this one."""
    own = set(rank.cores or ())
    return [
        other.rank
        for other in ranks
        if other.rank != rank.rank
        and other.host == rank.host
        and own.intersection(other.cores or ())
    ]


def _gpu(rank: Rank, middle: Rank, samples: Sequence[Sample]) -> Iterator[str]:
    """A slower clock, or a reason to slow down, that the GPU of the median rank has not.

    Only where it is known which GPU of the host each of the two has, and each has its own.
    """
    own, other = rank.gpu, middle.gpu
    if rank.host != middle.host or own is None or other is None or own == other:
        return
    clock, usual = _clock(own, samples), _clock(other, samples)
    slowed = _throttle(own, samples) - _throttle(other, samples)
    if clock and usual and clock < _SLOWER_CLOCK * usual:
        why = f" ({', '.join(sorted(slowed))})" if slowed else ""
        yield f"its GPU ran at {clock:.0f} MHz, that of rank {middle.rank} at {usual:.0f}{why}"
    elif slowed:
        yield f"its GPU was slowed down by {', '.join(sorted(slowed))}"


def _clock(index: int, samples: Sequence[Sample]) -> float | None:
    clocks = [
        gpu.sm_clock_mhz
        for sample in samples
        for gpu in sample.gpus
        if gpu.index == index and gpu.sm_clock_mhz
    ]
    return statistics.fmean(clocks) if clocks else None


def _throttle(index: int, samples: Sequence[Sample]) -> set[str]:
    return {
        reason
        for sample in samples
        for gpu in sample.gpus
        if gpu.index == index
        for reason in gpu.throttle or ()
    }


def _host(rank: Rank, ranks: Sequence[Rank], late: dict[int, float]) -> Iterator[str]:
    """All ranks of its host are late, and none of any other."""
    here = {one.rank for one in ranks if one.host == rank.host}
    if 1 < len(here) < len(ranks) and here == set(late):
        yield f"all ranks on host {rank.host} are behind, and no others"

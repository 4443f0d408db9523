"""How far two sets of runs of one script lie apart by chance."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

STUDENT = (79.6, 11.1, 6.32, 4.91, 4.26, 3.90, 3.67, 3.51)
"""Student's t, one-sided 99.6 %, for 1, 2, … degrees of freedom."""

SEVERAL = 4
"""Runs from which the slowest is left out: a neighbour disturbed it."""


def between(before: Sequence[float], after: Sequence[float]) -> float:
    """Half the interval of the change between two sets of times, as a share.

    Student's interval of the difference of the logarithms, variance pooled: an alarm within
    it might well be a false one. By the gap of the two best runs alone, which must show it as
    well, scripts whose runs vary by 2 to 8 % gave a false alarm in 2 to 9 of a hundred checks;
    with this in 0.2 to 1.9 (simulated, 12 blocks a run, with the runs that a check makes).
    0.0 where there are too few runs to tell.
    """
    was, now = ([math.log(one) for one in _undisturbed(side)] for side in (before, after))
    freedom = len(was) + len(now) - 2
    if freedom < 1:
        return 0.0
    squares = sum(sum((one - statistics.fmean(side)) ** 2 for one in side) for side in (was, now))
    factor = STUDENT[min(freedom, len(STUDENT)) - 1]
    half = factor * math.sqrt(squares / freedom * (1 / len(was) + 1 / len(now)))
    return math.expm1(min(half, 1.0))


def change(before: Sequence[float], after: Sequence[float]) -> float:
    """The change from the one set to the other by their geometric means, as a share."""
    was, now = (
        statistics.fmean(math.log(one) for one in _undisturbed(side)) for side in (before, after)
    )
    return math.expm1(now - was)


def _undisturbed(times: Sequence[float]) -> list[float]:
    ordered = sorted(times)
    return ordered[:-1] if len(ordered) >= SEVERAL else ordered


def least(noise: float) -> float:
    """Where an interval begins, as a share of its middle: above nothing, however wide it is.

    What takes three times as long now and then may take a third, but never no time at all.
    Differs from 1 - `noise` only for a noise above 39 %. With the power of 1.5, scripts whose
    runs vary by 50 % gave as many false alarms as with 1 - `noise`, by 100 % 3.5 of a hundred
    instead of 2.2, and what is five times as slow was caught (simulated as in `between`).
    """
    return max(1 - noise, math.pow(1 + noise, -1.5))

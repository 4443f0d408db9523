"""Whether two trainings that differ in the order of samples learn alike. Pure.

Losses of the same update need not agree then: they are of other samples. Their means
do, up to the noise of the batches and to the pace, which the order changes as well: a
small convolution with SGD, given its samples in another order, had 48 % more loss in
the mean of 120 updates, and was as good in the end.

On those scripts (see `parity.py`) no other order of samples was rejected, over 6 to 400
losses; a training whose weights stood still was, from 50 to 120 updates on. Before the
unchanged script has learnt something, losses cannot tell the two apart.
"""

from __future__ import annotations

import itertools
import math
import statistics

MEAN = 0.05
"""Relative distance of mean losses that passes, whatever the noise."""
ERRORS = 3.0
"""Standard errors that means may lie apart: one in 400 equal trainings does."""
LONGEST_MEMORY = 4.0
"""Losses of neighbouring updates resemble each other: the variance of their mean is up
to so many times larger. More would let a training that does not learn pass as noise."""
OWN_NOISE = 2.0
"""A candidate may be so many times as noisy as the unchanged script, no more: the
losses of a training that diverges must not excuse themselves by their own spread."""


def alike(unchanged: list[float], changed: list[float]) -> bool:
    """Whether losses of the same updates are what the same mathematics could have given.

    In the mean of all of them, and of their second half, by which a training that does
    not learn lies behind. Needs six losses or more.
    """
    return all(_alike(unchanged, changed, since) for since in (0, len(unchanged) // 2))


def of_each_update(
    values: dict[int, float], means: dict[int, int], updates: tuple[int, ...]
) -> list[float]:
    """The mean losses since the update before: running means taken apart.

    `means` says of how many updates a value is the running mean. Exact where all
    batches are of one size; the odd last batch of an epoch is not.
    """
    found = []
    at, behind = 0, 0
    for update in updates:
        value = values[update]
        count = means.get(update, 0)
        if behind and count - behind == update - at > 0:
            found.append((count * value - behind * values[at]) / (count - behind))
        else:
            found.append(value)
        at, behind = update, count
    return found


def _alike(unchanged: list[float], changed: list[float], since: int) -> bool:
    """Compare the means since one of the losses, with those of a training that learns
    at the pace of `unchanged`, at half or at twice of it, or anything between."""
    end = statistics.fmean(unchanged[-max(1, len(unchanged) // 4) :])
    paces = (
        unchanged,
        [unchanged[n // 2] for n in range(len(unchanged))],
        [*unchanged[::2], *[end] * (len(unchanged) // 2)],
    )
    means = [statistics.fmean(pace[since:]) for pace in paces]
    size = statistics.fmean(abs(loss) for loss in unchanged)
    slack = MEAN * size + ERRORS * _standard_error(unchanged[since:], changed[since:])
    return min(means) - slack <= statistics.fmean(changed[since:]) <= max(means) + slack


def _standard_error(unchanged: list[float], changed: list[float]) -> float:
    """The standard error of the difference of two means of losses of the same updates.

    From the differences, which hold no trend if both learn alike, but no larger than
    what the noise of the unchanged script explains.
    """
    many = len(unchanged)
    apart = [b - a for a, b in zip(unchanged, changed, strict=True)]
    memory = min(LONGEST_MEMORY, max(1.0, _memory(apart)))
    paired = statistics.stdev(apart) * math.sqrt(memory / many)
    steps = [b - a for a, b in itertools.pairwise(unchanged)]
    own = statistics.stdev(steps)  # sqrt(2) of the noise, without the trend
    return min(paired, OWN_NOISE * own * math.sqrt(LONGEST_MEMORY / many))


def _memory(values: list[float]) -> float:
    """By how much correlation of neighbours inflates the variance of a mean."""
    middle = statistics.fmean(values)
    off = [value - middle for value in values]
    total = sum(one * one for one in off)
    if total == 0.0:
        return 1.0
    lag = sum(a * b for a, b in itertools.pairwise(off)) / total
    return (1 + lag) / max(1e-9, 1 - lag)

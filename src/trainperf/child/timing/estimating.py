"""A mean that bursts do not move, and how far it can be trusted.

Used by the observed process, which times until its times are settled, and by the parent,
which reports them: both must see the same interval.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

T95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20)
"""Student's t, two-sided 95 %, for 1 to 11 degrees of freedom; beyond, the last."""

FEWEST = 5
"""Blocks from which an interval is given: two or three that agree by chance are no proof."""
TRIM = 0.25
"""So large a share of the blocks is left out at either end, the slowest and the quickest."""

STEADY_WITHIN = 0.25
"""Durations that lie so close to their median, as a share of it, are alike."""
STEADY_STEPS = 4
"""So many steps in a row must be alike for a warm-up to be over."""


@dataclass(frozen=True)
class Estimate:
    """A mean, and half its 95 % interval: None where too few values tell of the noise."""

    value: float
    half: float | None

    @property
    def relative(self) -> float:
        """Half the interval as a share of the mean; endless where it is not known."""
        if self.half is None or self.value == 0:
            return math.inf
        return self.half / abs(self.value)


def steady(durations: Sequence[float]) -> bool:
    """Whether the last steps are as long as each other."""
    last = durations[-STEADY_STEPS:]
    if len(last) < STEADY_STEPS:
        return False
    middle = statistics.median(last)
    return all(abs(seconds - middle) <= STEADY_WITHIN * middle for seconds in last)


def estimate(values: Sequence[float], weights: Sequence[float] | None = None) -> Estimate:
    """The trimmed mean of values, the middle ones weighted, with its interval.

    The interval is Yuen's: Student's t over the spread of the values with those at either
    end drawn in to the next one that is kept (Wilcox, Introduction to Robust Estimation,
    section 4.3).
    """
    order = sorted(range(len(values)), key=lambda index: values[index])
    out = 0 if len(values) < 3 else max(1, int(TRIM * len(values)))
    kept = order[out : len(order) - out]
    each = [1.0] * len(values) if weights is None else weights
    value = sum(values[index] * each[index] for index in kept) / sum(each[index] for index in kept)
    if len(values) < FEWEST:
        return Estimate(value, None)
    drawn_in = [values[kept[0]]] * out + [values[index] for index in kept]
    drawn_in += [values[kept[-1]]] * out
    freedom = len(kept) - 1
    error = statistics.stdev(drawn_in) * math.sqrt((len(values) - 1) / (len(kept) * freedom))
    return Estimate(value, T95[min(freedom, len(T95)) - 1] * error)

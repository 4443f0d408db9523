"""Speed-ups from paired slices, with their intervals. Pure.

A pair is a slice of the changed script between two slices of the unchanged one. Its
ratio is the changed rate over the mean rate of its two neighbours, so that a steady
drift of the machine cancels.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from trainperf.model import Ratio

TRIM = 0.2
"""Share of the pairs left out at either end: a neighbour's burst spoils single pairs.
20 % is Wilcox's recommendation for trimmed means (Introduction to Robust Estimation)."""

FEWEST = 3
"""Fewer pairs than this give no interval."""
FEWEST_RESAMPLED = 6
"""With fewer pairs than this a bootstrap cannot reach out far enough: for 95 % it
covered 68 % with three pairs and 83 % with four (tests/trial/test_ratio.py)."""
RESAMPLES = 1000
CONFIDENCE = 0.95
SEED = 20_26


@dataclass(frozen=True)
class Pair:
    """One slice of the changed script and its neighbours, as rates: work per second.

    `steps` are those of the changed slice.
    """

    changed: float
    before: float
    after: float
    steps: int

    @property
    def log_ratio(self) -> float:
        """Logarithm of the speed-up that this pair shows."""
        return math.log(self.changed) - math.log((self.before + self.after) / 2)


def ratio(pairs: Sequence[Pair]) -> Ratio:
    """The speed-up over `pairs` (at least three) with its 95 % interval.

    The trimmed mean of the logarithms of the pairs' ratios; the interval is a
    percentile bootstrap over pairs, widened for small numbers by
    sqrt(n / (n - 1)) × t / z (the "expanded percentile interval" of Hesterberg, "What
    Teachers Should Know About the Bootstrap", 2015): a plain one covers 88 % at n = 8.
    Below `FEWEST_RESAMPLED` pairs it is Student's.
    """
    if len(pairs) < FEWEST:
        raise ValueError(f"three pairs are needed for an interval, not {len(pairs)}")
    logs = sorted(pair.log_ratio for pair in pairs)
    middle, (low, high) = trimmed_mean(logs), _interval(logs)
    interval = math.exp(min(low, middle)), math.exp(max(high, middle))
    return Ratio(math.exp(middle), *interval, len(pairs), sum(pair.steps for pair in pairs))


def of_two(first: Ratio, second: Ratio, twin: float) -> tuple[Ratio, tuple[float, float]]:
    """The speed-up that two pairs of processes show, and that of each.

    Of both changed processes the speed-up over the first unchanged one was measured; that of the
    other unchanged one over it is `twin`, and `second` is set against that. The interval is as
    wide as the two lie apart, at least, with the noise of their slices.
    """
    logs = [math.log(first.speedup), math.log(second.speedup / twin)]
    noise = max(math.log(found.high / found.low) / 2 for found in (first, second))
    middle, apart = sum(logs) / 2, abs(logs[0] - logs[1]) / 2
    half = math.hypot(apart, noise / math.sqrt(2))
    ends = math.exp(middle - half), math.exp(middle + half)
    pairs, steps = first.pairs + second.pairs, first.steps + second.steps
    return Ratio(math.exp(middle), *ends, pairs, steps), (math.exp(logs[0]), math.exp(logs[1]))


def trimmed_mean(values: Sequence[float]) -> float:
    """The mean of `values` without the `TRIM` share at either end."""
    ordered = sorted(values)
    cut = int(TRIM * len(ordered))
    return statistics.fmean(ordered[cut : len(ordered) - cut])


def _interval(logs: Sequence[float]) -> tuple[float, float]:
    count, mean = len(logs), statistics.fmean(logs)
    quantile = student_t(1 - (1 - CONFIDENCE) / 2, count - 1)
    if count < FEWEST_RESAMPLED:
        half = quantile * statistics.stdev(logs) / math.sqrt(count)
        return mean - half, mean + half
    chance = random.Random(SEED)
    means = sorted(trimmed_mean(chance.choices(logs, k=count)) for _ in range(RESAMPLES))
    # the percentiles that give the stated rate with so many pairs
    tail = statistics.NormalDist().cdf(-quantile * math.sqrt(count / (count - 1)))
    return _quantile(means, tail), _quantile(means, 1 - tail)


def student_t(probability: float, freedom: int) -> float:
    """Quantile of Student's t, by Cornish and Fisher's expansion (to 1 % from 2 up).

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5.
    """
    z = statistics.NormalDist().inv_cdf(probability)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    powers = (float(freedom) ** power for power in range(1, len(terms) + 1))
    return z + sum(term / power for term, power in zip(terms, powers, strict=True))


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)

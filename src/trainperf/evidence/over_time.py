"""Late blocks of steps against early ones."""

from __future__ import annotations

import bisect
import math
import statistics
from collections.abc import Sequence

from trainperf.child.timing.estimating import estimate
from trainperf.evidence.events import Observed
from trainperf.evidence.timing import CALM
from trainperf.evidence.usage import waited
from trainperf.model import Event, OverTime, Sample

FEWEST_BLOCKS = 15
"""Blocks of which each third has an interval."""
SHORTEST_S = 15.0
"""From the first of them to the last: what takes longer to show is not looked for below."""
WITHIN = 0.02
"""So far the middle third may lie outside of the other two."""

Interval = tuple[float, float, float]


def over_time(observed: Observed, samples: Sequence[Sample] = ()) -> OverTime | None:
    """How the last third of the real blocks compares with the first; None where too few tell."""
    blocks = [one for one in observed.of("block") if one["p"] == "real" and one["n"] > 0]
    if len(blocks) < FEWEST_BLOCKS:
        return None
    begun, ended = blocks[0]["s"], blocks[-1]["s"] + blocks[-1]["d"]
    if ended - begun < SHORTEST_S:
        return None
    third = len(blocks) // 3
    early, middle, late = blocks[:third], blocks[third:-third], blocks[-third:]
    times = [_times(one, observed.steps_per_call) for one in (early, middle, late)]
    ratio, low, high = _ratio(times[2], times[0])
    means = [estimate(_level(one)).value for one in times]
    return OverTime(
        seconds=ended - begun,
        steps=round(sum(one["n"] for one in blocks) * observed.steps_per_call),
        early_s=means[0],
        late_s=means[2],
        ratio=ratio,
        low=low,
        high=high,
        rising=means[0] * (1 - WITHIN) <= means[1] <= means[2] * (1 + WITHIN),
        batch_ratio=_batches(early, late),
        disturbed=_waited(samples, late) - _waited(samples, early) > CALM,
    )


def _times(blocks: Sequence[Event], per_call: float) -> list[float]:
    return [one["d"] / (one["n"] * per_call) for one in blocks]


def _ratio(late: Sequence[float], early: Sequence[float]) -> Interval:
    """The ratio of two means of as many values each, with its interval.

    A trend within them is what is looked for, and no noise of the means.
    """
    above, below = estimate(_level(late)), estimate(_level(early))
    ratio = above.value / below.value
    half = math.hypot(above.relative, below.relative)
    return ratio, ratio * max(0.0, 1 - half), ratio * (1 + half)


def _level(values: Sequence[float]) -> list[float]:
    """The values with their straight trend taken out, around the same mean."""
    slope, _ = statistics.linear_regression(range(len(values)), values)
    middle = (len(values) - 1) / 2
    return [value - slope * (index - middle) for index, value in enumerate(values)]


def _batches(early: Sequence[Event], late: Sequence[Event]) -> float | None:
    """How many times as large late batches are; None where that is unknown, or may be 1."""
    sizes = [[one["bytes"] for one in part if one.get("bytes")] for part in (early, late)]
    if any(len(one) < len(early) for one in sizes):
        return None
    ratio, low, high = _ratio(sizes[1], sizes[0])
    return ratio if low > 1 + WITHIN or high < 1 - WITHIN else None


def _waited(samples: Sequence[Sample], blocks: Sequence[Event]) -> float:
    """The share of their time that others kept the script's threads from a core."""
    at = [one.t for one in samples]
    first = bisect.bisect_left(at, blocks[0]["s"])
    inside = samples[first : bisect.bisect_right(at, blocks[-1]["s"] + blocks[-1]["d"])]
    return waited(one.host for one in inside if one.host is not None) or 0.0

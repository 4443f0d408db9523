"""Places in a drawing, as shares of its width: a page is as wide as its reader's screen.

And what is drawn of the trials: the interval of each on one scale, so that they can be compared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainperf.model import words as units
from trainperf.report.document import TrialRows, Tried

_TICKS = (0.1, 0.2, 0.5, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1e3, 1e4)

APART = 17.0
"""Per cent of the width between two ticks at least."""


def percent(share: float) -> str:
    """Write a share as an SVG length: "31.25%"; shares outside 0 to 1 stand at the edge."""
    share = min(max(share, 0.0), 1.0) if math.isfinite(share) else 0.0
    return f"{share * 100:.2f}".rstrip("0").rstrip(".") + "%"


@dataclass(frozen=True)
class Tick:
    """A mark of a scale: where, and what is written there."""

    x: str
    text: str
    one: bool = False


@dataclass(frozen=True)
class Scale:
    """A logarithmic scale of speed-ups, from `low` to `high`, with 1.0 on it."""

    low: float
    high: float

    def at(self, speedup: float | None) -> str:
        """The place of a speed-up, at the edge where it is outside; "" of None."""
        return "" if speedup is None else percent(self.share(speedup))

    def share(self, speedup: float) -> float:
        """The share of the width where a speed-up stands."""
        inside = min(max(speedup, self.low), self.high)
        return math.log(inside / self.low) / math.log(self.high / self.low)

    def ticks(self) -> list[Tick]:
        """The marks that stand so far apart, 1× always among them."""
        taken = [1.0]
        for tick in _TICKS:
            inside = 0.02 <= self.share(tick) <= 0.95 and self.low < tick < self.high
            far = (abs(self.share(tick) - self.share(one)) * 100 >= APART for one in taken)
            if inside and all(far):
                taken.append(tick)
        return [Tick(self.at(tick), f"{tick:g}×", tick == 1.0) for tick in sorted(taken)]


@dataclass(frozen=True)
class Interval:
    """A measured speed-up on its scale: point, interval, upper bound, and what is noise.

    All are places ("31.25%"), "" where there is none. `words` says the same.
    """

    one: str
    point: str
    low: str
    high: str
    bound: str
    noise_from: str
    noise_length: str
    words: str
    kept: bool


@dataclass(frozen=True)
class Plots:
    """The drawings of the trials in their order, and the marks of their scale."""

    axis: tuple[Tick, ...]
    intervals: tuple[Interval | None, ...]


def plots(trials: TrialRows) -> Plots:
    """Place all trials that were measured on one scale, with some room about 1.0."""
    floor = trials.floor
    figures = [figure for row in trials.rows for figure in (*(row.gain or ()), row.bound)]
    figures += [] if floor is None else [1 + floor, 1 / (1 + floor)]
    known = [figure for figure in figures if figure and math.isfinite(figure)]
    low, high = min([0.9, *known]) / 1.03, max([1.25, *known]) * 1.06
    scale = Scale(max(low, 0.05), min(high, 1e6))
    intervals = tuple(_interval(scale, row, floor) for row in trials.rows)
    return Plots(tuple(scale.ticks()) if any(intervals) else (), intervals)


def _interval(scale: Scale, row: Tried, floor: float | None) -> Interval | None:
    if row.gain is None:
        return None
    speedup, low, high = row.gain
    told = [f"measured {units.measured(speedup, low, high)}"]
    if row.bound is not None:
        told.append(f"at most {units.bound(row.bound)}")
    noise = ("", "")
    if floor is not None:
        told.append(f"gains below {units.share(floor)} could be noise")
        least, most = scale.share(1 / (1 + floor)), scale.share(1 + floor)
        noise = (percent(least), percent(most - least))
    return Interval(
        scale.at(1.0),
        scale.at(speedup),
        scale.at(low),
        scale.at(high),
        scale.at(row.bound),
        *noise,
        words="; ".join(told),
        kept=row.kept,
    )

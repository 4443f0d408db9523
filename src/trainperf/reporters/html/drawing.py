"""Places in a drawing, as shares of its width: a page is as wide as its reader's screen.

And what is drawn of the trials: the interval of each on one scale, so that they can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from trainperf.model import Diagnosis
from trainperf.model import words as units
from trainperf.report.sections import trials

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

    def at(self, speedup: float) -> float:
        """The share of the width where a speed-up stands; at the edge where it is outside."""
        inside = min(max(speedup, self.low), self.high)
        return math.log(inside / self.low) / math.log(self.high / self.low)

    def ticks(self) -> list[Tick]:
        """The marks that stand so far apart, 1× always among them."""
        taken = [1.0]
        for tick in _TICKS:
            inside = 0.02 <= self.at(tick) <= 0.95 and self.low < tick < self.high
            if inside and all(abs(self.at(tick) - self.at(one)) * 100 >= APART for one in taken):
                taken.append(tick)
        return [Tick(percent(self.at(tick)), f"{tick:g}×", tick == 1.0) for tick in sorted(taken)]


def scale(speedups: Iterable[float | None]) -> Scale:
    """The scale on which all these speed-ups have their place, with some room about 1.0."""
    known = [one for one in speedups if one is not None and one > 0 and math.isfinite(one)]
    low = min([0.9, *known]) / 1.03
    high = max([1.25, *known]) * 1.06
    return Scale(max(low, 0.05), min(high, 1e6))


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


def interval(
    on: Scale,
    speedup: float,
    low: float | None,
    high: float | None,
    *,
    bound: float | None,
    floor: float | None,
    kept: bool = False,
) -> Interval:
    """Place a speed-up on the scale."""
    told = [f"measured {units.measured(speedup, low, high)}"]
    if bound is not None:
        told.append(f"at most {units.bound(bound)}")
    if floor is not None:
        told.append(f"gains below {units.share(floor)} could be noise")
    least = on.at(1 / (1 + floor)) if floor is not None else 0.0
    most = on.at(1 + floor) if floor is not None else 0.0
    return Interval(
        one=percent(on.at(1.0)),
        point=percent(on.at(speedup)),
        low="" if low is None else percent(on.at(low)),
        high="" if high is None else percent(on.at(high)),
        bound="" if bound is None else percent(on.at(bound)),
        noise_from="" if floor is None else percent(least),
        noise_length="" if floor is None else percent(most - least),
        words="; ".join(told),
        kept=kept,
    )


@dataclass(frozen=True)
class Plots:
    """The drawings of the trials in the order of the report, and the marks of their scale."""

    axis: tuple[Tick, ...]
    intervals: tuple[Interval | None, ...]


def plots(diagnosis: Diagnosis) -> Plots:
    """Place all trials that were measured on one scale."""
    control, made = diagnosis.control, trials.ordered(diagnosis)
    floor = None if control is None else control.floor
    figures = [one for trial in made for one in (trial.low, trial.high, trial.speedup, trial.bound)]
    if floor is not None:
        figures += [1 + floor, 1 / (1 + floor)]
    on = scale(figures)
    intervals = tuple(
        interval(on, one.speedup, one.low, one.high, bound=one.bound, floor=floor, kept=one.kept)
        if one.speedup is not None
        else None
        for one in made
    )
    return Plots(tuple(on.ticks()) if any(intervals) else (), intervals)

"""The trials that were measured, drawn on one scale of speed-ups, so that they can be compared."""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainperf.model import Diagnosis, Trial
from trainperf.model import words as units
from trainperf.report.sections.trials import ordered
from trainperf.reporters.html.sheet import percent

TICKS = (0.1, 0.2, 0.5, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1e3, 1e4)

APART = 0.17
"""Share of the width between two ticks at least."""


@dataclass(frozen=True)
class Scale:
    """A logarithmic scale of speed-ups, with 1.0 on it."""

    low: float
    high: float

    def share(self, speedup: float) -> float:
        """The share of the width where a speed-up stands, at the edge where it is outside."""
        inside = min(max(speedup, self.low), self.high)
        return math.log(inside / self.low) / math.log(self.high / self.low)

    def at(self, speedup: float | None) -> str:
        """The place of a speed-up: "31.25%"; "" of None."""
        return "" if speedup is None else percent(self.share(speedup))

    def ticks(self) -> list[float]:
        """The speed-ups to be marked, so far apart, 1.0 always among them."""
        taken = [1.0]
        for tick in TICKS:
            far = all(abs(self.share(tick) - self.share(one)) >= APART for one in taken)
            if far and 0.02 <= self.share(tick) <= 0.95:
                taken.append(tick)
        return sorted(taken)


@dataclass(frozen=True)
class Interval:
    """A trial on the scale: its figure, the ends of the interval, the bound; "" for none."""

    name: str
    words: str
    kept: bool
    point: str
    low: str
    high: str
    bound: str


@dataclass(frozen=True)
class Drawing:
    """All that were measured, the marks of their scale, and from where to where it is noise."""

    intervals: tuple[Interval, ...]
    ticks: tuple[tuple[str, str], ...]
    one: str
    noise: tuple[str, str] | None


def drawing(diagnosis: Diagnosis) -> Drawing | None:
    """Place all trials that were measured on one scale, with some room about 1.0."""
    trials = [trial for trial in ordered(diagnosis) if trial.speedup is not None]
    if not trials:
        return None
    figures = [figure for one in trials for figure in (one.speedup, one.low, one.high, one.bound)]
    floor = None if diagnosis.control is None else 1 + diagnosis.control.floor
    figures += [] if floor is None else [floor, 1 / floor]
    known = [figure for figure in figures if figure and math.isfinite(figure)]
    scale = Scale(max(min(0.9, *known) / 1.03, 0.05), min(max(1.25, *known) * 1.06, 1e6))
    noise = None
    if floor is not None:
        noise = (scale.at(1 / floor), percent(scale.share(floor) - scale.share(1 / floor)))
    return Drawing(
        tuple(_interval(trial, scale) for trial in trials),
        tuple((scale.at(tick), f"{tick:g}×") for tick in scale.ticks()),
        scale.at(1.0),
        noise,
    )


def _interval(trial: Trial, scale: Scale) -> Interval:
    told = units.measured(trial.speedup or 0.0, trial.low, trial.high)
    bound = "" if trial.bound is None else f", at most {units.bound(trial.bound)} predicted"
    places = map(scale.at, (trial.speedup, trial.low, trial.high, trial.bound))
    return Interval(trial.name, f"{told}{bound}", trial.kept, *places)

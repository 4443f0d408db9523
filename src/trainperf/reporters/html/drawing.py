"""Places in a drawing, as shares of its width: a page is as wide as its reader's screen."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from trainperf.model import words as units

_TICKS = (0.1, 0.2, 0.5, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1e3, 1e4)

APART = 9.0
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

    def ticks(self, apart: float = APART) -> list[Tick]:
        """The marks that stand so far apart, 1× always among them."""
        taken = [1.0]
        for tick in _TICKS:
            inside = 0.02 <= self.at(tick) <= 0.95 and self.low < tick < self.high
            if inside and all(abs(self.at(tick) - self.at(one)) * 100 >= apart for one in taken):
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
    ticks: tuple[Tick, ...]
    words: str
    kept: bool


def interval(
    on: Scale,
    speedup: float | None,
    low: float | None,
    high: float | None,
    *,
    bound: float | None,
    floor: float | None,
    kept: bool = False,
) -> Interval | None:
    """Place a speed-up on the scale; None where neither it nor a bound is known."""
    if speedup is None and bound is None:
        return None
    told = []
    if speedup is not None:
        told.append(f"measured {units.measured(speedup, low, high)}")
    if bound is not None:
        told.append(f"at most {units.bound(bound)}")
    if floor is not None:
        told.append(f"gains below {units.share(floor)} could be noise")
    least = on.at(1 / (1 + floor)) if floor is not None else 0.0
    most = on.at(1 + floor) if floor is not None else 0.0
    return Interval(
        one=percent(on.at(1.0)),
        point="" if speedup is None else percent(on.at(speedup)),
        low="" if low is None else percent(on.at(low)),
        high="" if high is None else percent(on.at(high)),
        bound="" if bound is None else percent(on.at(bound)),
        noise_from="" if floor is None else percent(least),
        noise_length="" if floor is None else percent(most - least),
        ticks=tuple(on.ticks()),
        words="; ".join(told),
        kept=kept,
    )

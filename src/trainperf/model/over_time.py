"""Late steps of one run against its early ones, and what the training holds more and more of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainperf.model.basics import Site

SLOWER = 1.05
"""Late steps are slower if the whole interval of the ratio lies above this: below, clocks of the
machine and neighbours that nobody sees may be it."""

NOTED = 1.10
"""The same in an ordinary run, which was not made to see it: it has fewer blocks."""

GrownKind = Literal["container", "array", "graph", "files", "framework"]
"""A list, dictionary or set; elements of an array; terms of a sum that keeps its graph; open
files; a number of the framework's own."""


@dataclass(frozen=True)
class Grown:
    """Something of which each look at a soak found more.

    `sizes` are (steps until then, size) at each look, `item` is the type of the last item,
    `holds_graph` says that it keeps the graph it was computed by, `cls` names the class whose
    attribute it is, `examples` files that are open more often than at first.
    """

    kind: GrownKind
    name: str
    sizes: tuple[tuple[int, int], ...]
    item: str = ""
    holds_graph: bool = False
    cls: str = ""
    where: Site | None = None
    examples: tuple[str, ...] = ()

    @property
    def per_step(self) -> float:
        """How much more each step made it, from the second look to the last."""
        (n, size), (m, more) = self.sizes[1 if len(self.sizes) > 2 else 0], self.sizes[-1]
        return (more - size) / max(1, m - n)


@dataclass(frozen=True)
class MemoryGrowth:
    """Bytes that each step adds to the memory of the script's processes, with its interval.

    A straight line through the last two thirds of a soak; `gained` is what they added in all.
    """

    per_step: float
    low: float
    high: float
    gained: int


@dataclass(frozen=True)
class OverTime:
    """The last third of a run's blocks of steps against the first one.

    `ratio` is late over early with its 95 % interval, `batch_ratio` the same of a batch's bytes
    where these surely changed. `disturbed` says that neighbours took more of the cores late than
    early, `rising` that the middle third lies between the two. A `soak` was made to see this:
    only there is `memory` known, None where it did not surely grow, and `grown` looked for.
    """

    seconds: float
    steps: int
    early_s: float
    late_s: float
    ratio: float
    low: float
    high: float
    rising: bool = True
    batch_ratio: float | None = None
    disturbed: bool = False
    soak: bool = False
    memory: MemoryGrowth | None = None
    grown: tuple[Grown, ...] = ()

    @property
    def slower(self) -> bool:
        """Whether late steps are slower though they do the same work on as quiet a machine."""
        larger = self.batch_ratio is not None and self.batch_ratio > 1
        least = SLOWER if self.soak else NOTED
        return self.low > least and self.rising and not self.disturbed and not larger

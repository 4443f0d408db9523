"""What a step takes, by lines of the user's own files."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from trainperf.model.basics import Site

LineKind = Literal[
    "python", "library", "operators", "backward", "graph", "input", "compiling", "waiting"
]
"""What passes on a line: the interpreter at the line itself ("python"), a library's Python beneath
it ("library"), native operators that it called ("operators"), what the backward of those takes
("backward"), operators of a compiled graph that it made ("graph"), opening, taking from or closing
an input ("input"), tracing or compiling ("compiling"), waiting for a device ("waiting")."""


@dataclass(frozen=True)
class LinePart:
    """Seconds of a step that pass on a line in one way."""

    kind: LineKind
    seconds: float


@dataclass(frozen=True)
class Looks:
    """What the operators of a line were seen to be given in a few steps.

    `zeros` is the share of zeros in the largest operand of a matrix product that is the same in
    each step, of this `shape`, and `variable` its name in the source, "" where it has none.
    `rows_used` of `rows` rows of a trained table were looked up in a step, its gradient `sparse` or
    not. `same` says that the line computes the same of the same in each step. What is None, or
    False, was not seen.
    """

    zeros: float | None = None
    shape: tuple[int, ...] = ()
    variable: str = ""
    rows_used: int | None = None
    rows: int | None = None
    sparse: bool = False
    same: bool = False


@dataclass(frozen=True)
class Line:
    """A line of the user's, and the seconds of a step that pass on it and on no deeper one.

    `parts` add up to `seconds`, the dearest first. `samples` of the stack were on it, of so many
    as `StepLines` says; 0 where its time is known by operators alone. `call` is the call in it that
    takes most, as written or as the library names it, `operators` how many calls of the framework's
    operators a step makes there, None where they were not counted, and `elements` the median
    size of their largest operand. `callers` are the user's lines that lead to it, the loop's first.
    `loop` is the head of the innermost loop around it, or around its callers, that turns within a
    step.
    """

    where: Site
    text: str
    seconds: float
    parts: tuple[LinePart, ...]
    samples: int = 0
    call: str = ""
    operators: float | None = None
    elements: int | None = None
    callers: tuple[Site, ...] = ()
    loop: Site | None = None
    looks: Looks | None = None

    @property
    def kind(self) -> LineKind:
        """What most of its time is."""
        return self.parts[0].kind

    def of(self, *kinds: LineKind) -> float:
        """Seconds of a step that pass on it in these ways."""
        return sum(part.seconds for part in self.parts if part.kind in kinds)


@dataclass(frozen=True)
class StepLines:
    """A step's `seconds` by lines, the dearest first; `elsewhere_s` of them are on no line.

    `lines` and `elsewhere_s` add up to `seconds`, but for rounding. `samples` of the stacks in
    steps are behind them. `beside` are lines that other threads were at meanwhile, with the seconds
    of a step in which they were: they overlap with the step.
    """

    seconds: float
    lines: tuple[Line, ...]
    elsewhere_s: float
    samples: int
    beside: tuple[Line, ...] = ()

    def share(self, line: Line) -> float:
        """The share of a step that passes on a line."""
        return line.seconds / self.seconds if self.seconds else 0.0

    def half_width(self, line: Line) -> float:
        """Half of the 95 % interval of that share, as so many samples can tell it."""
        share = min(1.0, self.share(line))
        return 1.96 * math.sqrt(max(share * (1 - share), 0.25 / self.samples) / self.samples)

    def kinds(self) -> dict[LineKind, float]:
        """Seconds of a step by what passes on lines, the dearest first."""
        sums: dict[LineKind, float] = {}
        for line in self.lines:
            for part in line.parts:
                sums[part.kind] = sums.get(part.kind, 0.0) + part.seconds
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

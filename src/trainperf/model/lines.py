"""What a step takes, by lines of the user's own files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from trainperf.model.basics import Site, half_width

LineKind = Literal[
    "python", "library", "operators", "backward", "graph", "input", "compiling", "waiting"
]
"""What passes on a line: the interpreter at the line itself ("python"), a library's Python beneath
it ("library"), native operators that it called ("operators"), what the backward of those takes
("backward"), operators of a compiled graph that it made ("graph"), opening, taking from or closing
an input ("input"), tracing or compiling ("compiling"), waiting for a device ("waiting")."""

MANY = 30
"""Calls of operators on one line in a step, from which their number is what they cost."""

MANY_IN_MODEL = 300
"""The same of a layer's own line that stands in no loop of its function: a model of sixty blocks
has so many, each with work of its own."""

MANY_IN_GRAPH = 200
"""The same of a compiled graph, whose layers have dozens of operators each."""

LOOPS_IN_GRAPH = re.compile(r"\b(map_fn|scan|foldl|foldr|while_loop)\(")
"""Functions of TensorFlow that call the user's for each element."""

CALL_S = 100e-6
"""Seconds that a call of an operator from Python takes at most, on a slow core; 5 to 20 µs is
usual. Where calls take longer than that on average they do work."""

SMALL = 1 << 14
"""Elements of an operand up to which an operator takes about as long as calling it: some 10 µs, in
which one core does about so many additions."""

OF_FRAMEWORKS = ("torch.", "tensorflow.", "keras.", "tf_keras.")
"""Libraries whose functions are operators, where their time is told apart."""

OF_TRAINING = re.compile(
    r"\.(backward|zero_grad|gradient|apply_gradients|minimize|fit|train_on_batch)\("
    r"|(opt|scal|sched)[^.]*\.(step|apply)\(|\.trainer\.|torch\.optim\.|\.optimizers\.",
    re.IGNORECASE,
)
"""Calls by which a framework trains: what it does there is no code of the user's. An environment
has a `step` as well, and a table an `apply`."""

LOSSES = re.compile(r"cross_?entropy|torch\.nn\.functional\.\w*_loss\b", re.IGNORECASE)
"""A framework's own losses, called beside its layers."""


@dataclass(frozen=True)
class LinePart:
    """Seconds of a step that pass on a line in one way."""

    kind: LineKind
    seconds: float


@dataclass(frozen=True)
class Looks:
    """What the operators of a line were seen to be given in a few steps.

    `zeros` is the share of zeros in the largest operand of a matrix product that is the same in
    each step, of this `shape`.
    `rows_used` of `rows` rows of a trained table, each of `width` numbers, were looked up in a
    step, its gradient `sparse` or not. `same` says that the line computes the same of the same in
    each step. `unfused` says what keeps attention from a fused kernel: "dropout", "mask gradient",
    "mask", "memory", "dimensions", "width", with commas between; or "type or shape", or "off". What
    is None, or False, was not seen.
    """

    zeros: float | None = None
    shape: tuple[int, ...] = ()
    rows_used: int | None = None
    rows: int | None = None
    width: int = 0
    sparse: bool = False
    same: bool = False
    unfused: str | None = None


@dataclass(frozen=True)
class Line:
    """A line of the user's, and the seconds of a step that pass on it and on no deeper one.

    `parts` add up to `seconds`, the dearest first. `samples` of the stack were on it, of so many
    as `StepLines` says; 0 where its time is known by operators alone. `call` is the call in it that
    takes most, as written or as the library names it, `operators` how many calls of the framework's
    operators a step makes there, None where they were not counted, and `elements` the median
    size of their largest operand. `callers` are the user's lines that lead to it, the outermost
    first. `loop` is where the innermost loop begins that it stands in: one of its own function,
    with its head as `loop_text`, else one around its callers that was seen to turn within a step.
    `device_s` are the seconds of a step in which a GPU runs what it launched, and the backward of
    that, on the GPU's own clock: they pass while the host is at other lines. None without a GPU, or
    where it was not traced. `in_model` says that it calls a model or a layer, or is run by one.
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
    loop_text: str = ""
    looks: Looks | None = None
    device_s: float | None = None
    in_model: bool = False

    @property
    def weight(self) -> float:
        """Seconds of a step by which it is heavy: the host's, or the GPU's where they are more."""
        return max(self.seconds, self.device_s or 0.0)

    @property
    def kind(self) -> LineKind:
        """What most of its time is."""
        return self.parts[0].kind

    @property
    def called(self) -> str:
        """Its `call` as a reader knows it: by the name that the line calls it by, if it does.

        "" where it is private to a library: the line calls something else.
        """
        names = self.call.split(".")
        if all(map(str.isidentifier, names)) and names[-1] in self.text:
            return names[-1]
        return "" if names[-1].startswith("_") else self.call

    @property
    def of_training(self) -> bool:
        """Whether it is a call by which the framework trains."""
        return bool(OF_TRAINING.search(f"{self.text} {self.call}"))

    @property
    def makes_small_calls(self) -> bool:
        """Whether it calls many operators in a step whose work is smaller than a call costs.

        In a graph a model's line without a loop builds a layer, which loops by itself, as a
        recurrent one does: what it calls is the library's.
        """
        calls = self.operators or 0.0
        if self.kind == "graph":
            own = self.loop or not self.in_model or LOOPS_IN_GRAPH.search(self.text)
            return bool(own) and calls >= MANY_IN_GRAPH and self.of("graph") <= CALL_S * calls
        small = self.elements is not None and self.elements <= SMALL
        many = MANY_IN_MODEL if self.in_model and not self.loop_text else MANY
        return small and calls >= many and self.of("operators") <= CALL_S * calls

    def of(self, *kinds: LineKind) -> float:
        """Seconds of a step that pass on it in these ways."""
        return sum(part.seconds for part in self.parts if part.kind in kinds)


@dataclass(frozen=True)
class FunctionLines:
    """The lines of one function of the user's, and what of them the user's own Python explains.

    `lines` are the dearest first, `seconds` those of a step that pass on them. `python_s` of these
    are Python and what is neither a framework's nor an input's, `small_s` are operators too small
    to be worth their calls, with their backward: so many `calls` of them in a step. Of the function
    that holds the step's loop each line stands for itself.
    """

    lines: tuple[Line, ...]
    seconds: float
    python_s: float
    small_s: float
    calls: float
    alone: bool = False  # a line that stands for itself

    @property
    def where(self) -> Site:
        """The dearest of its lines."""
        return self.lines[0].where

    @property
    def own_s(self) -> float:
        """Seconds of a step that other code of the user's would save, as far as it can be seen."""
        return self.python_s + self.small_s


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

    def computing(self, line: Line) -> float:
        """The share of a step in which the device computes what a line starts, if that is known.

        On a GPU the host's seconds on a line tell where it queues, and where it waits for all that
        it has queued.
        """
        traced = any(one.device_s is not None for one in self.lines)
        return (line.device_s or 0.0) / self.seconds if traced else self.share(line)

    def half_width(self, share: float) -> float:
        """Half of the 95 % interval of a share, as so many samples can tell it."""
        return half_width(share, self.samples)

    def functions(self, loop: Site | None) -> tuple[FunctionLines, ...]:
        """The functions of the user's, by what their own Python takes; `loop` is the step's."""
        groups: dict[tuple[str, str, int], list[Line]] = {}
        for line in self.lines:
            where = line.where
            steps = loop is not None and (where.file, _bare(where.function)) == (
                loop.file,
                _bare(loop.function),
            )
            apart = where.line if steps or where.function == "<module>" else 0
            groups.setdefault((where.file, where.function, apart), []).append(line)
        found = (_function(tuple(lines), bool(apart)) for (*_, apart), lines in groups.items())
        return tuple(sorted(found, key=lambda function: -function.own_s))

    def beside_model(self) -> tuple[Line, ...]:
        """The lines whose operators are neither a model's or layer's nor the framework's own.

        Calls of `fit`, of gradients, of optimizers and of its losses are the framework's: they hold
        no code of the user's that could be another.
        """
        return tuple(
            line
            for line in self.lines
            if not line.in_model
            and line.kind in ("python", "library", "operators", "backward", "graph")
            and not line.of_training
            and not LOSSES.search(f"{line.text} {line.call}")
        )


def _function(lines: tuple[Line, ...], alone: bool) -> FunctionLines:
    small = [line for line in lines if line.makes_small_calls]
    return FunctionLines(
        lines,
        sum(line.seconds for line in lines),
        sum(line.of("python", "library") for line in lines),
        sum(line.of("operators", "backward", "graph") for line in small),
        sum(line.operators or 0.0 for line in small),
        alone,
    )


def _bare(function: str) -> str:
    return function.rpartition(".")[2]

"""Where the time of a training goes: beside its steps, and from start to end, now and after."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from trainperf.model.basics import Missing, Site

NOTHING_SEEN = Missing("nothing was seen to stand between the steps")

CALLED_EAGERLY = "model(x)"
"""The name of a Keras model that runs its layers from Python (`child/keras/hooks.py`)."""

Turn = Literal["fit", "epoch", "evaluation", "pause", "step"]

SpentOn = Literal[
    "evaluation", "prediction", "saving", "callbacks", "opening", "tracing", "epoch end", "other"
]


SPENT_ON: dict[SpentOn, str] = {
    "evaluation": "evaluation",
    "prediction": "prediction",
    "saving": "saving",
    "callbacks": "callbacks",
    "opening": "opening the input",
    "tracing": "tracing a step anew",
    "epoch end": "the ends of its epochs",
    "other": "other work",
}
"""The name of each kind of work in a turn."""

MOST_OF_IT = 0.5
"""From this share of a turn on, what is no training step is what the training is bound by."""

TURNS = {
    "fit": "One pass of the loop around `fit`",
    "epoch": "One epoch with what follows it",
    "evaluation": "From one evaluation to the next",
    "pause": "From one pause between steps to the next",
    "step": "One step",
}
"""The name of each kind of turn."""


@dataclass(frozen=True)
class InPlace:
    """What could stand for a call, timed after some of its calls on the input of each.

    `called_s` are seconds of a call, `instead_s` of what could stand for it; `ratio` says how many
    times as quick that is, over so many `pairs`, `low` and `high` are its 95 % interval. `apart` is
    by how much the results of a pair differ at most, as a share of the largest number: 0.0 where
    all are the same, 1.0 where they cannot be compared.
    """

    instead_s: float
    ratio: float
    low: float
    high: float
    pairs: int
    apart: float


@dataclass(frozen=True)
class Spent:
    """The time that one turn spends on something else than training steps.

    `seconds` in one turn, `share` of the turn. `name` is what was called ("predict",
    "evaluate", a function of the user's); `calls` how often in one turn, None where that
    was not counted, and `rows` the most samples that one of them was given in arrays. `instead`
    is what was measured of what could stand for them.
    """

    what: SpentOn
    seconds: float
    share: float
    name: str = ""
    calls: float | None = None
    where: Site | None = None
    rows: int | None = None
    instead: InPlace | None = None


@dataclass(frozen=True)
class Outside:
    """One turn of what the script repeats: its training steps, and what stands between.

    A turn is a `fit` with what stands before the next one, an epoch with what follows it,
    the steps from one evaluation, or one pause of another kind, to the next, or a step.
    `seconds` is a whole turn as it is written, `steps` how many steps it has, `training_s`
    what they take. `spent` is the rest, most of it first. `whole` says that the turn was seen
    to its end: otherwise `seconds` is the least that it takes.
    """

    turn: Turn
    seconds: float
    steps: int
    training_s: float
    spent: tuple[Spent, ...] = ()
    whole: bool = True

    @property
    def share(self) -> float:
        """The share of a turn that is no training step."""
        return max(0.0, 1 - self.training_s / self.seconds)

    def on(self, *kinds: SpentOn) -> tuple[float, tuple[Site, ...]]:
        """Return the seconds of a turn that go to work of these kinds, and where it stands."""
        parts = [spent for spent in self.spent if spent.what in kinds]
        places = tuple(spent.where for spent in parts if spent.where is not None)
        return sum(spent.seconds for spent in parts), places

    def ratio_without(self, seconds: float) -> float:
        """Return the speed-up of a turn that so many of its seconds go from."""
        return self.seconds / max(self.seconds - seconds, 1e-9)


ItemPart = Literal["start", "compiling", "steps", "between", "end", "once"]

_Made = Literal["call", "command", "file", "elsewhere"]
"""From what its settings came: a call in the user's source, the options of the command (which
`HfArgumentParser` reads), a file that the command names, or what cannot be told."""


@dataclass(frozen=True)
class Trainer:
    """The settings of `Trainer` of Transformers or Lightning, or of accelerate's `Accelerator`.

    `library` is the one it is of, `cls` the name of its class and `where` the call in the user's
    source that made it. `settings` are its arguments as they took effect, by name: those that
    fixes speak of, as far as the installed version has them; `defaults` what they are where they
    are left out. `source` is the file that was read where it was `made` of a "file", and how the
    options begin ("--") where of the "command".
    """

    library: str
    cls: str
    where: Site | None = None
    made: _Made = "elsewhere"
    source: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Length:
    """How long the training is configured to be.

    `steps` of the loop that was timed, in all; `epochs` passes over its data, over all calls of
    `fit` (`fits`), None where it is not counted in epochs. `text` says it in words, `where` is
    the loop or call that says so. `open` is why it may come otherwise: early stopping. `others`
    are further places of the script that train, which are not in it.
    """

    steps: int
    text: str
    epochs: int | None = None
    fits: int = 1
    where: Site | None = None
    open: str = ""
    others: int = 0


@dataclass(frozen=True)
class Item:
    """A line of the ledger: what it is, how often it comes, and its seconds in all.

    `part` says where it stands: in the start, up to the first step; in what is compiled again in
    steps after it; in the steps; between them; in the end of the process; or among what the kept
    changes cost once. `after_s` is with these, None where there are none.
    """

    part: ItemPart
    name: str
    count: int
    now_s: float
    after_s: float | None = None
    where: Site | None = None


@dataclass(frozen=True)
class Training:
    """The training as it is configured, in seconds of the clock on the wall.

    `basis` is "ledger" (start-up, steps, what stands between, times how often each comes) or
    "whole runs": then `runs` are the seconds of plain runs from start to end, the script as it
    is and with the changes in turns, A B B A. `low` and `high` bound `seconds_after`, which is
    None where nothing is changed. `configured` is None where the length is not known: then there
    are no seconds. `reason` says why that is, or why `seconds_after` is not known, or why no plain
    runs confirm it.
    """

    configured: Length | None
    basis: Literal["ledger", "whole runs"] = "ledger"
    seconds_now: float | None = None
    seconds_after: float | None = None
    low: float | None = None
    high: float | None = None
    items: tuple[Item, ...] = ()
    runs: tuple[float, ...] = ()
    reason: str = ""

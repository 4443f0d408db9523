"""Where the time of a training goes beside the steps of its loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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

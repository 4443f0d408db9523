"""Causes of slow training, and their repair."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from trainperf.model.basics import Site
from trainperf.recording.run import Epoch

Slices = Epoch | Literal["steps", "none"]
"""What the slices hold in which a repair is tried: steps, a whole turn of what the script repeats,
or nothing, where it saves outside of all that slices could hold."""


class Equivalence(StrEnum):
    """How much a fix may change, from nothing to the experiment itself."""

    EXACT = "exact"  # same numbers, same order of samples
    NUMERICS = "numerics"  # same mathematics, other rounding, order or random stream
    SEMANTICS = "semantics"  # other hyper-parameters, model or observability
    ENVIRONMENT = "environment"  # outside the source


Category = Literal["input", "model", "host", "sync", "memory", "storage", "environment"]


@dataclass(frozen=True)
class OwnCode:
    """What a function of the user's takes: `share` of a step passes in `name`, which `does` that.

    `surely` says that it takes most of a step, beyond the noise. `pieces` are the share of each of
    the finding's places, and whether all of its function is meant.
    """

    name: str
    kind: Literal["weights", "cell", "small calls", "loop", "call"]
    does: str
    share: float
    surely: bool = False
    pieces: tuple[tuple[float, bool], ...] = ()


@dataclass(frozen=True)
class StorageWait:
    """Seconds of a step that go into files or objects on their way, `most_s` at most: `what`."""

    seconds: float
    most_s: float
    what: str


@dataclass(frozen=True)
class Variant:
    """One of several ways to make a repair, by what is laid over the `data` of its finding.

    Each step then holds `samples_per_step` times the samples that it holds now.
    """

    data: dict[str, Any]
    samples_per_step: float = 1.0

    @property
    def name(self) -> str:
        """What it is called in trials: "workers=4"."""
        return ", ".join(f"{name}={value}" for name, value in self.data.items())


@dataclass(frozen=True)
class TurnGain:
    """What a repair gives a turn of the script by calls that were timed in place of its own.

    `speedup` of the whole turn, with its interval, is by `pairs` of calls at least. `ratios` say of
    each place of the finding how many times as quick the other call is, at least and at most; None
    of one that was not timed or gave other numbers.
    """

    speedup: float
    low: float
    high: float
    pairs: int
    ratios: tuple[tuple[float, float, float] | None, ...]


@dataclass(frozen=True)
class Finding:
    """One cause: what is slow, how it shows, where, and what repairing it can give.

    `bound` is the upper bound of the speed-up of the whole step (1.8 means at most
    1.8 times as many steps per second) in the middle of the noise, None where no bound can be
    given, with `bound_basis` saying where it comes from; `at_best` is the same at the favourable
    end of the noise: what decides whether it is tried. `text` is the evidence in a sentence or
    two with numbers; `advice` what to do, in the imperative; `snippet` the code to
    paste. `rewritable` says that a patch can be written for it, and `data` is what its edit needs:
    nobody but its fix reads it. Where several `variants` of the edit are listed, each is tried.
    `slices` is what it is tried in. Once it is repaired each step holds `samples_per_step` times
    the samples that it holds now. `in_place` is what the repair gives outside the training steps,
    where that was timed in the run.
    `own` is the code of the user's that it tells of, `waits` what storage takes of a step.
    """

    id: str
    category: Category
    title: str
    text: str
    bound: float | None
    bound_basis: str
    equivalence: Equivalence
    where: tuple[Site, ...] = ()
    advice: str = ""
    snippet: str = ""
    rewritable: bool = False
    data: dict[str, Any] = field(default_factory=dict)
    at_best: float | None = None
    own: OwnCode | None = None
    waits: StorageWait | None = None
    slices: Slices = "steps"
    variants: tuple[Variant, ...] = ()
    samples_per_step: float = 1.0
    in_place: TurnGain | None = None

    @property
    def most(self) -> float | None:
        """What it may give for all the noise allows; None where nothing limits it."""
        return self.bound if self.at_best is None else self.at_best


@dataclass(frozen=True)
class NotTaken:
    """Something that was not measured or not done, and why."""

    what: str
    reason: str


@dataclass(frozen=True)
class PatchedFile:
    """A file of the patch or of a finding: its absolute path, and the SHA-256 of its bytes."""

    path: str
    sha256: str


@dataclass(frozen=True)
class Patch:
    """The edits of the findings as one unified diff, or why there is none.

    `findings` are the ids whose edits it holds, `environment` the variables they set
    for the command, `arguments` the words that they put at its end. `skipped` names what could
    not be written, with the reason. `diff` is relative to `root`, and true for `files` as they
    were. `cells` is what there is to read instead where one of them is a notebook: its diff by
    cells.
    """

    diff: str
    findings: tuple[str, ...]
    skipped: tuple[NotTaken, ...] = ()
    root: str = ""
    files: tuple[PatchedFile, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    cells: str = ""

    @property
    def shown(self) -> str:
        """The edits as a report shows them."""
        return self.cells or self.diff

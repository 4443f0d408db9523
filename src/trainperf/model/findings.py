"""Causes of slow training, their repair, and what came of trying it on the script itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
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


class Outcome(StrEnum):
    """The outcome of a trial."""

    KEPT = "kept"
    CHANGES = "faster, but changes the experiment"  # measured; in no patch unless asked for
    NO_EFFECT = "no measurable effect"  # the interval does not clear 1 and the noise floor
    SLOWER = "slower"
    LOSSES_DIFFER = "losses differ"
    LOSES = "faster, but not in this training"  # costs more once than it saves, or saves too little
    REDUNDANT = "adds nothing to the others"  # pays alone, not on top of the stack
    FAILED = "failed"  # crashed, hung, was killed, made no step
    NOT_TRIED = "not tried"


UNDECIDED, OPEN = 1.05, 1.10
"""From here on a speed-up whose interval is too wide says nothing, and so does any whose interval
reaches that far; below both, it says that the gain is small."""


@dataclass(frozen=True)
class Ratio:
    """A speed-up over paired slices: samples per second, changed over unchanged.

    `low` and `high` bound its 95 % bootstrap interval; `pairs` is the number of slices
    that stood next to one of the unchanged script, `steps` their steps.
    """

    speedup: float
    low: float
    high: float
    pairs: int
    steps: int


@dataclass(frozen=True)
class Trial:
    """A fix tried on the real script, or why it was not.

    `speedup` with `low` and `high` is of the fix alone, as in `Ratio`, or of what it gives `on_top`
    of the fixes with these ids, where it gives nothing alone; `bound` is what was predicted at
    most, at the favourable end of the noise.
    `parity` says in words how its losses compare, `same` whether they are those of the unchanged
    script, None where that was not told. `one_off_s` is what the fix costs once
    (compiling, filling a cache) and `break_even_steps` how many steps earn that back; None where
    nothing was to be earned back. `variant` says which
    of several ways to make the fix this was ("workers=4"). `note` says how it was measured
    where that was another way than that of the others. `basis` says of what the speed-up is: of
    steps, in pairs of slices; of the whole script, in pairs of plain runs; of a turn of what the
    script repeats, by pairs of calls that were timed in place; or of the step without its input (in
    PyTorch forward and backward), by pairs of blocks with and without the change in the loop of the
    observed run: it gained nothing there, and no process was started for it. One that came too
    `late` was not tried for want of time: a longer budget would do.
    """

    fix: str
    outcome: Outcome
    reason: str
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    pairs: int = 0
    steps: int = 0
    parity: str = ""
    same: bool | None = None
    kept: bool = False
    bound: float | None = None
    one_off_s: float | None = None
    break_even_steps: int | None = None
    variant: str = ""
    note: str = ""
    on_top: tuple[str, ...] = ()
    basis: Literal["steps", "whole runs", "calls", "in the loop"] = "steps"
    late: bool = False

    @property
    def name(self) -> str:
        """The fix, and which of its variants this was."""
        return f"{self.fix} ({self.variant})" if self.variant else self.fix

    def dropped(self, outcome: Outcome, reason: str) -> Trial:
        """The trial of a fix that is not kept, and why."""
        return replace(self, outcome=outcome, reason=reason, kept=False)

    @property
    def undecided(self) -> bool:
        """Whether it may well be a gain, and could not be told from the noise."""
        gain = (self.speedup or 0.0) >= UNDECIDED or (self.high or 0.0) > OPEN
        return gain and self.outcome is Outcome.NO_EFFECT and self.basis == "steps"

    @property
    def why(self) -> str:
        """The reason for its outcome, and how it was measured if not as the others."""
        return "; ".join(one.rstrip(".") for one in (self.reason, self.how) if one)

    @property
    def how(self) -> str:
        """How it was measured where that was another way than that of the others."""
        beneath = f"measured on top of {', '.join(self.on_top)}" if self.on_top else ""
        return "; ".join(one for one in (beneath, self.note) if one)


def by_fix(trials: Iterable[Trial]) -> dict[str, Trial]:
    """The trial of each fix; of several variants the kept one, else the fastest."""
    order = sorted(trials, key=lambda one: (one.kept, one.speedup or 0.0))
    return {one.fix: one for one in order}


Proven = Literal["faster", "slower", "no difference", "cannot tell", "failed"]
"""The answers to a change that was to be proved."""


@dataclass(frozen=True)
class Proof:
    """The answer to a change that somebody wanted proved.

    `text` says it in a sentence. `proven` is whether the script is surely faster with it by what
    was asked for, and trains the same: `same_training` by its losses and its samples, None where
    these could not be compared. `speedup` with `low` and `high` is in samples per second, or that
    of whole runs, as its trial says; a step of the script as it is takes `step_s` seconds and holds
    `samples_before`. `memory_…` is what the processes held at most, `device_memory_…` what was
    taken on the GPU, bytes. None: not known.
    """

    name: str
    answer: Proven
    text: str
    proven: bool = False
    same_training: bool | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    step_s: float | None = None
    samples_before: float | None = None
    samples_after: float | None = None
    memory_before: int | None = None
    memory_after: int | None = None
    device_memory_before: int | None = None
    device_memory_after: int | None = None


@dataclass(frozen=True)
class Control(Ratio):
    """The unchanged script against itself: the noise floor of the trials.

    `floor` is the relative gain that could be noise beyond a candidate's own interval: half
    of this one's half-width, or what it reads if that is more. `reproducible` says whether
    the two gave the same losses to rounding, None where no losses were seen; `loss_band` is
    how far they parted, as a share of the loss.
    """

    floor: float
    reproducible: bool | None = None
    loss_band: float | None = None


@dataclass(frozen=True)
class Stack:
    """All kept fixes together: what the reader gets by applying the patch.

    Steps are those of the unchanged script, in samples: `before_step_s` and `after_step_s` are
    seconds for as many samples as one of its steps holds. Epochs are steps of an epoch times that,
    and what passes between two of them; None where either is not known. `once_seconds` is what the
    changes cost once, compared with the start of the unchanged script, None where that was not
    measured; `held_s` are the seconds between two epochs that
    its steps hold, as slices of whole epochs do. Unless they were measured `together`, the speed-up
    is the product of what some gave, and the others on top of those.
    """

    fixes: tuple[str, ...]
    speedup: float
    low: float
    high: float
    pairs: int
    steps: int
    before_step_s: float
    after_step_s: float
    before_samples_per_s: float | None = None
    after_samples_per_s: float | None = None
    before_epoch_s: float | None = None
    after_epoch_s: float | None = None
    once_seconds: float | None = None
    held_s: float = 0.0
    together: bool = True


@dataclass(frozen=True)
class Trials:
    """How the trials were made: what a reader needs to judge their figures.

    `mode` with `mode_reason`: legs that live together and take turns (then the reason says
    what slices hold, if that is not a few steps), or fresh processes one after another (then
    why). `seconds` is what all trials took, `seed` the seed of
    every leg. `budget_needed_s` is the budget that would have let all be tried, None
    where nothing was left out for want of time. `reason` says why there were none.
    `interrupted` says that Ctrl-C ended them. `passive` says that in all legs OpenMP's threads
    slept where they waited for one another (`OMP_WAIT_POLICY=passive`), `huge_pages` that their
    tensors lay on huge pages (`GLIBC_TUNABLES=glibc.malloc.hugetlb=1`), `growth` that TensorFlow
    took the GPU memory that it needed only (`TF_FORCE_GPU_ALLOW_GROWTH=true`).
    `neighbours_cores` are those that other processes took when the trials began, None where that
    was not told. `compared_s` are the seconds of the slices that were compared, the unchanged
    script's among them.
    """

    mode: Literal["side by side", "one after another", "none"]
    mode_reason: str = ""
    reason: str = ""
    legs: int = 0
    seconds: float = 0.0
    seed: int | None = None
    budget_needed_s: float | None = None
    interrupted: bool = False
    passive: bool = False
    huge_pages: bool = False
    growth: bool = False
    neighbours_cores: float | None = None
    compared_s: float = 0.0

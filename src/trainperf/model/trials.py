"""The outcomes of trying the fixes on the script itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal


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


UNDECIDED = 1.05
"""From here on a speed-up whose interval is too wide says nothing; below it, that it is small."""


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
        gain = self.speedup is not None and self.speedup >= UNDECIDED
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
class Control:
    """The unchanged script against itself: the noise floor of the trials.

    `floor` is the relative gain that could be noise beyond a candidate's own interval: half
    of this one's half-width, or what it reads if that is more. `reproducible` says whether
    the two gave the same losses to rounding, None where no losses were seen; `loss_band` is
    how far they parted, as a share of the loss.
    """

    speedup: float
    low: float
    high: float
    pairs: int
    steps: int
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

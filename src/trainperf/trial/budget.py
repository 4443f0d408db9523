"""The time that trials may take, and would need, and what they are made with."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from trainperf.errors import NotMeasured
from trainperf.model import Event, Evidence, Machine, Measure, Recording, Run, is_taken
from trainperf.model.facts import DATASET_ITEM
from trainperf.recording.run import Epoch
from trainperf.run.spawn import run_file_of
from trainperf.run.stopping import LEG, Guard
from trainperf.trial.ranks import count

SLICE_S = 0.3
"""A slice is about so long: short against a neighbour's bursts (seconds), long against
what stopping and waking costs (a few milliseconds)."""
SETTLE_S = 0.05
"""So long caches and thread pools are cold after a leg was woken, and at least one step:
steps of 2 ms read 12 % too long in slices that dropped one step only."""
LEAST_S, LEAST_STEPS = 0.5, 2
"""A slice has so many steps, and three where they take no longer than that: its first one counts
for nobody."""
SLOW_STEP_S = 0.5
"""From this step time on a slice is a single step."""
MIN_PAIRS = 6
"""Fewer pairs decide only what is far from 1."""
NO_SLICE = "the time was over before the first slice"
WARM_UP_STEPS = 6
SLOW_WARM_UP_S, SLOW_WARM_UP_STEPS = 0.3, 3
"""Where a step takes as long as a slice, so many warm up: the first ones trace and allocate."""
SLICES = 8
"""Slices of each process where they run one after another: two and a half seconds."""
IMPORTING = 0.75
"""Of legs that start beside each other each takes so much of a core: they import, and read."""
END_S = 1.5
"""Seconds kept to end the processes and write the report."""
CACHES = f"{LEG}caches"
"""The folder of what legs compile, beside theirs: it goes when they do."""

Say = Callable[[str, float | None], None]
"""Tells the user what is going on, and which share of it is done."""


def telling(on_event: Callable[[Event], None]) -> Say:
    """Tell it as an event of a diagnosis."""
    return lambda text, share: on_event(
        {"e": "trial", "text": text, "fraction": share, "expected_s": None}
    )


def epochs_of_slice(epoch: Epoch, step_s: float) -> int:
    """How many whole epochs make a slice long enough, of steps of `step_s` seconds."""
    return max(1, math.ceil(SLICE_S / max(epoch.steps * step_s, 1e-6)))


def slice_steps(step_s: float, every: int = 1) -> int:
    """How many steps make a slice, where one takes `step_s` seconds: a multiple of `every`."""
    least = 1 if step_s >= SLOW_STEP_S else max(LEAST_STEPS, min(3, int(LEAST_S / step_s)))
    steps = max(least, math.ceil(SLICE_S / max(step_s, 1e-6)))
    return math.ceil(steps / every) * every


def settle_steps(step_s: float, settles: bool = True) -> int:
    """How many steps at the start of a slice count for nobody, each of `step_s` seconds.

    None where a step takes as long as a slice, and the first one is like the others.
    """
    if not settles and step_s >= SLICE_S:
        return 0
    return max(1, math.ceil(SETTLE_S / max(step_s, 1e-6)))


@dataclass(frozen=True)
class Costs:
    """The cost of legs, estimated from the observed run; seconds.

    `start_s` is from a start to the end of the warm-up of one leg alone, `step_s` that of a step,
    `epoch_s` that of a whole pass over the data (None if not known), `cores` how many legs can
    start at a time without slowing each other; `at_once` do, as imports take one core each, but
    one at a time makes its first steps where its threads `spin` as they wait for each other.
    So many `slots` are there for legs beside each other: where it is one, a candidate takes three
    processes, one after another. With an `epoch`, each slice holds whole ones. Unless it
    `settles`, slices of slow steps begin with one that counts.
    """

    start_s: float
    step_s: float
    epoch_s: float | None
    cores: float
    slots: int
    at_once: int = 1
    spin: bool = False
    epoch: Epoch | None = None
    settles: bool = True

    def starting(self, legs: int, epochs: int = 0) -> float:
        """Seconds until so many legs have warmed up, started together where they fit."""
        beside = max(min(1.0, legs), legs / max(self.cores, IMPORTING * self.at_once))
        return (self.start_s + epochs * (self.epoch_s or 0.0)) * beside

    def comparing(self, contests: int, pairs: int = MIN_PAIRS) -> float:
        """Seconds for so many contests of so many pairs each, and slices of the script itself."""
        return contests * pairs * 1.5 * self.slice_s

    def trying(self, candidates: int, epochs: int = 0) -> float:
        """Seconds for so many candidates beside the script and its control."""
        if self.slots == 1:
            return (3 * candidates + 1) * (self.starting(1, epochs) + SLICES * self.slice_s)
        return self.starting(candidates + 2, epochs) + self.comparing(candidates + 1)

    def holding(self, epoch: Epoch | None) -> Costs:
        """The same with slices that hold whole epochs, as long as this one; None: steps."""
        if epoch is None or epoch == self.epoch:
            return self
        step_s = epoch.seconds / epoch.steps
        return replace(self, epoch=epoch, step_s=step_s, epoch_s=epoch.seconds)

    def in_steps(self, epoch: Epoch | None) -> float:
        """The share of the seconds of such slices that steps take."""
        return 1.0 if epoch is None else min(1.0, self.step_s * epoch.steps / epoch.seconds)

    @property
    def slice_s(self) -> float:
        """Seconds of a slice, with its first step."""
        if self.epoch is not None:
            count = epochs_of_slice(self.epoch, self.step_s)
            return (count * self.epoch.seconds + self.step_s) * 1.1
        steps = slice_steps(self.step_s) + min(1, settle_steps(self.step_s, self.settles))
        return max(SLICE_S, steps * self.step_s) * 1.1


DRAWS = 3
"""Times its length that a sampler with replacement draws until it has seen 95 % (1 - e^-3)."""


def pass_steps(evidence: Evidence) -> int:
    """Steps after which a sampler that draws far more than its dataset holds was at most items.

    So does one without a length. 0 where an epoch is no longer than that.
    """
    loop, stages = evidence.loop, evidence.stages if is_taken(evidence.stages_) else ()
    items = max((stage.cardinality or 0 for stage in stages if stage.op == DATASET_ITEM), default=0)
    steps = math.ceil(DRAWS * items / loop.batch_size) if loop.batch_size else 0
    return steps if steps < (loop.epoch_steps or math.inf) else 0


def steps_of_a_pass(evidence: Evidence) -> int | None:
    """Steps after which what is kept of the first pass over the data shows; None: not known."""
    return pass_steps(evidence) or evidence.loop.epoch_steps


def warm_up_steps(evidence: Evidence) -> int:
    """How many steps a leg makes before its first slice, at least."""
    real = evidence.times.real_
    slow = isinstance(real, Measure) and real.seconds >= SLOW_WARM_UP_S
    return SLOW_WARM_UP_STEPS if slow else WARM_UP_STEPS


def settles(evidence: Evidence, ranks: int) -> bool:
    """Whether the first step of a slice is none like the others, however long it takes.

    On a device it hides no input behind the one before it; ranks may wake one after another.
    """
    return evidence.device.kind != "CPU" or ranks > 1


def costs_of(
    recording: Recording, evidence: Evidence, machine: Machine, slots: int, spin: bool = False
) -> Costs | str:
    """The costs of this script's legs, from its observed run, or why they are not known."""
    ranks = count(recording.events)
    real, steps = evidence.times.real_, steps_of_a_pass(evidence)
    first = evidence.startup.to_first_step_s if evidence.startup is not None else None
    if not isinstance(real, Measure) or first is None:
        return "how long the script takes to start, or a step, was not measured"
    step_s, beside = real.seconds, 1.0
    if recording.run.guarded:  # else they write into the same real folders
        try:
            used = evidence.phase("real").cpu_cores
        except NotMeasured:
            used = None
        cores = max(1.0, min(machine.cores, os.cpu_count() or 1))
        beside = max(1.0, cores / max(float(ranks), used or 1.0))
    slowest = max(1.0, min(3.0, 20 * step_s))
    return Costs(
        start_s=first + max(slowest, warm_up_steps(evidence) * step_s),
        step_s=step_s,
        epoch_s=steps * step_s if steps else None,
        cores=beside,
        slots=slots,
        at_once=max(2, int(beside) + 1),
        spin=spin,
        settles=settles(evidence, ranks),
    )


@dataclass(frozen=True)
class Bench:
    """The means of trials: the unchanged leg's run, a folder, the costs."""

    run: Run
    folder: Path
    costs: Costs
    say: Say

    def guard(self) -> Guard:
        """A guard over the legs to come, and over what they compile."""
        guard = Guard()
        guard.watch(run_file_of(self.folder / CACHES))
        return guard


@dataclass(frozen=True)
class Clock:
    """How much time is left. `deadline` is on the clock of `now`, seconds."""

    deadline: float
    interrupted: Callable[[], bool]
    now: Callable[[], float] = time.monotonic

    @property
    def left(self) -> float:
        """Seconds until the trials have to end."""
        return self.deadline - END_S - self.now()

    def over(self) -> bool:
        """Whether the time is over, or the user wants an end."""
        return self.left <= 0 or self.interrupted()

    @property
    def reason(self) -> str:
        """Why there is no more time."""
        return "interrupted" if self.interrupted() else "out of budget"

    def keeping(self, seconds: float) -> Clock:
        """The same clock, ending earlier by `seconds`."""
        return Clock(self.deadline - seconds, self.interrupted, self.now)


def budget_needed(
    spent: float, costs: Costs, candidates: int, epochs: int = 0, missed: float = 0.0
) -> float:
    """The budget that lets all candidates be tried, rounded up as reports print it.

    `spent` are the seconds used before them. Half as much again is added, for contests that are
    not decided at once and for the winners together. `missed` is a budget that was used up before
    all were tried: it is more than that.
    """
    needed = max(spent + 1.5 * costs.trying(candidates, epochs) + END_S, 1.5 * missed)
    each = 10.0 if needed <= 90 else 60.0
    return math.ceil(needed / each) * each

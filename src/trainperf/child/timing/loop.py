"""The phases of an observed training loop, and when each begins and ends.

    warm-up, then rounds of (real, local, resident, input), after the first one profile, done

The profile comes early, because a script may end before all rounds are done; where a step takes
many seconds it comes first. Where its steps were far slower than those of the rounds, a burst fell
on it: it is taken again at the end.

Phases alternate in short blocks so that drift of the machine falls on all of them alike,
and a burst on few blocks. Rounds go on until the times are settled, no longer. A block counts its
steps only after a few settling steps: after the input phase the pipeline's buffers are
empty, after the resident phase they are full, and neither is how the loop normally runs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .budget import Budget
from .estimating import FEWEST, estimate, steady

if TYPE_CHECKING:
    from ..job.ranks import World

WARM_UP = "warmup"
REAL = "real"
RESIDENT = "resident"
LOCAL = "local"
"""The step without the exchange of gradients between replicas."""
INPUT = "input"
PROFILE = "profile"
DONE = "done"

SETTLE_REAL = 2
SETTLE_RESIDENT = 1
SETTLE_S = 0.3
"""Steps that take so long go before a block that follows on idle devices: they slow down then."""
MIN_STEPS = 4
LONGEST_PERIOD_S = 5.0
"""Blocks are made of whole periods of the script's own waits, if these are no longer."""
FEWEST_STEPS = 2
"""A block of slow steps has so many at least."""
SLOW_STEP_S = 1.5
"""From this step time on no real step is spent on settling."""
CRAWLING_S = 6.0
"""From this step time on a block is a step, and the first round ends where its share of the budget
does: what a step passes in is told before how exactly it is timed."""
ROUNDS = FEWEST
"""So many rounds are planned from the start: fewer say nothing of the noise."""
ROUNDS_S = 4.5
"""Seconds that these take, where steps are not too slow for it. Of the same time seven blocks
give half the interval of five: `estimate` leaves out two of either."""
RUN_SHARE = 0.5
"""A loop whose end is known gives its rounds so much of what is left of it: its operators are
traced in steps that come after them."""
OVERRUN = 4
"""They may take so many times as long, whatever is left for measuring."""
MOST_ROUNDS = 100
NARROW = 0.05
"""Times whose interval is within this share of the real step are settled."""
ORDERING = 0.08
"""The same where trials follow: times only order what is tried. A step is called healthy that is
known to within 10 %."""
MOSTLY_WAITING = 0.5
"""A step that surely loses more than this to its input is bound by it, whatever else is told."""
SHARES = {REAL: 0.42, RESIDENT: 0.24, INPUT: 0.24, LOCAL: 0.24, PROFILE: 0.13}
"""Of the time for the rounds, by phase."""
WARM_UP_STEPS = 40
WARM_UP_S = 6.0
DISTURBED = 1.5
"""Profiled steps that take so many times as long as real ones are profiled again: what timing
their calls costs is far less, but for steps of a millisecond or so."""
MOST_PROFILES = 3


@dataclass
class Block:
    """A run of consecutive steps in one phase, with what it needs to be complete."""

    phase: str
    index: int
    seconds: float
    min_steps: int = MIN_STEPS
    max_steps: int = 10_000
    settle: int = 0
    steps: int = 0
    enough: float = math.inf
    """Where work is queued: so many steps are, by what they took in earlier blocks."""
    started: float | None = None


class Plan:
    """Says which phase the next step belongs to. Framework-neutral; a fake clock will do.

    Rounds go on until the answer is settled (`_known`), or until the `budget` for it is used.
    `phases` names what can be had in this loop. `left` says how many steps it has left, None
    where that is not known or has no end for us.
    """

    counts_only = False
    """Whether steps are only counted, not recorded one by one (legs of trials)."""
    as_written = False
    """Whether epochs end where they are written to, and what follows them counts."""
    whole_epochs = False
    """Whether blocks hold epochs with all that is in them."""
    queues = False
    """Whether the devices run later than the host: steps end in its time before they are done."""
    every = 1
    """A block has a multiple of so many steps."""

    def __init__(
        self,
        clock: Callable[[], float],
        budget: Budget,
        phases: tuple[str, ...] = (REAL, RESIDENT, INPUT),
        left: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._clock = clock
        self._left = left
        self._budget = budget
        self._pace_s = min(ROUNDS_S, budget.measure_cap_s or ROUNDS_S)
        self._phases = phases
        self._durations: list[float] = []
        self._times: dict[str, list[float]] = {}
        self._rounds = 0
        self._warm_up_from: float | None = None
        self._queue: list[Block] = []
        self._round_by = self._first_by = self._ends_by = math.inf
        self._keeps = 0
        self._most_replayed: int | None = None
        self.block = Block(WARM_UP, 0, WARM_UP_S)

    @property
    def phase(self) -> str:
        """The phase the next step belongs to."""
        return self.block.phase

    @property
    def wants_more(self) -> bool:
        """Whether the loop must go on for the plan to be complete."""
        return self.phase != DONE

    @property
    def settling(self) -> bool:
        """Whether the next step is still a settling step of its block."""
        return self.block.settle > 0

    def exchanges(self) -> None:
        """Gradients are exchanged between replicas: time the step without it as well."""
        self._phases = (*self._phases, LOCAL)

    def arrived(self) -> bool:
        """Count the step that begins now; whether its block ends before it by number."""
        return False

    def begin_if_settled(self) -> bool:
        """Start the clock of the block if it has settled and is not running yet."""
        block = self.block
        if self.settling or block.started is not None:
            return False
        if self.queues:
            times = self._times.get(block.phase)
            usual = estimate(times).value if times else self.step_estimate()
            block.enough = block.seconds / max(usual, 1e-9)
        block.started = self._clock()
        return True

    def step_ended(self, seconds: float, usual: bool = True) -> bool:
        """Count a step; return whether it completed its block.

        `usual` is False for a step that was disturbed (tracing, an epoch's end): it
        does not help a warm-up to settle.
        """
        block = self.block
        if block.phase == WARM_UP:
            if usual:
                self._durations.append(seconds)
            block.steps += 1
            return self._settled()
        if block.settle > 0:
            block.settle -= 1
            return False
        block.steps += 1
        return self._complete(block)

    def timed(self, phase: str, seconds: float, steps: int) -> None:
        """Take note of a block that is complete: its steps took so many seconds in all."""
        self._times.setdefault(phase, []).append(seconds / steps)

    def repeat_doubled(self) -> None:
        """Take the block once more, with twice its steps."""
        block = self.block
        block.min_steps = block.max_steps = 2 * block.steps
        block.started, block.steps = None, 0

    def waits_every(self, steps: int) -> bool:
        """The script waits for its devices after every so many steps: count blocks in these.

        Returns whether that is new; what was timed before is forgotten then.
        """
        if steps == self.every or steps * self.step_estimate() > LONGEST_PERIOD_S:
            return False
        self.every = steps
        self._times.clear()
        return True

    def advance(self) -> None:
        """Go to the next block, or to the end."""
        if self.block.phase == WARM_UP:
            self._schedule()
        index = self._queue[0].index if self._queue else self._rounds
        by = self._first_by if index < ROUNDS else self._ends_by
        late = self._clock() > (by if self.block.index > 0 else self._round_by)
        if index >= ROUNDS and self._keeps > 0 and (left := self._left()) is not None:
            late = late or left < self._keeps
        if not self._queue and not late and not self._known():
            self._round(REAL, LOCAL, RESIDENT)
        if not self._queue and not late and self._profile_disturbed():
            self._profile()
        done = late or not self._queue
        self.block = Block(DONE, 0, 0.0) if done else self._queue.pop(0)

    def give_up(self, phase: str) -> None:
        """Take a phase that turned out to be impossible out of what is left."""
        self._queue = [block for block in self._queue if block.phase != phase]
        self._phases = tuple(kept for kept in self._phases if kept != phase)
        if self.block.phase == phase:
            self.advance()

    def step_estimate(self) -> float:
        """Seconds of a usual step, from the warm-up."""
        return statistics.median(self._durations[-5:]) if self._durations else 0.0

    @property
    def slow(self) -> bool:
        """Whether steps take so long that none of them can be spared."""
        return self.step_estimate() > SLOW_STEP_S

    @property
    def _crawls(self) -> bool:
        return self.step_estimate() > CRAWLING_S

    def _settled(self) -> bool:
        if self.block.steps >= WARM_UP_STEPS:
            return True
        if self._warm_up_from is None:  # what came before the first step's end is no step
            self._warm_up_from = self._clock()
        if self._clock() - self._warm_up_from > WARM_UP_S and self.block.steps >= 2:
            return True
        return steady(self._durations)

    def _complete(self, block: Block) -> bool:
        if block.started is None or block.steps < block.min_steps:
            return False
        if block.steps >= block.max_steps:
            return True
        if block.steps % self.every:
            return False
        return block.steps >= block.enough or self._clock() - block.started >= block.seconds

    def _schedule(self) -> None:
        now = self._clock()
        self._ends_by = self._budget.measure_by(now)
        self._first_by = max(self._ends_by, now + OVERRUN * self._pace_s)
        if (left := self._left()) is not None:
            by = now + RUN_SHARE * left * self.step_estimate()
            self._ends_by, self._first_by = min(self._ends_by, by), min(self._first_by, by)
            self._pace_s = min(self._pace_s, by - now)
            # The rounds leave their share of the steps, of which replaying takes many.
            share, paced = RUN_SHARE * left, self._pace_s / max(self.step_estimate(), 1e-9)
            self._keeps = math.ceil(left - share)
            timed = (SHARES[REAL] + SHARES[PROFILE]) * paced
            self._most_replayed = max(MIN_STEPS, int((share - timed) / ROUNDS))
        if self._crawls:
            self._round_by = self._budget.extra_by(now)
            self._profile()
        for index in range(ROUNDS):
            self._round(REAL, LOCAL, RESIDENT, INPUT)
            if index == 0 and not self._crawls:
                self._profile()

    def _round(self, *phases: str) -> None:
        for phase in phases:
            if phase in self._phases:
                seconds = self._pace_s * SHARES[phase] / ROUNDS
                self._queue.append(self._block(phase, self._rounds, seconds))
        self._rounds += 1

    def _profile(self) -> None:
        index = len(self._times.get(PROFILE, ()))
        self._queue.append(self._block(PROFILE, index, self._pace_s * SHARES[PROFILE]))

    def _profile_disturbed(self) -> bool:
        """Whether the profile is worth another try, as no steps like the usual ones were seen."""
        taken, real = self._times.get(PROFILE, ()), self._times.get(REAL, ())
        if not real or not 0 < len(taken) < MOST_PROFILES:
            return False
        return min(taken) > DISTURBED * estimate(real).value

    def _known(self) -> bool:
        """Whether more rounds would tell nothing more, or nothing that was asked for."""
        wanted = [phase for phase in (REAL, RESIDENT) if phase in self._phases]
        if not wanted or self._rounds >= MOST_ROUNDS:
            return True
        if any(len(self._times.get(phase, ())) < FEWEST for phase in wanted):
            return False
        step = estimate(self._times[wanted[0]]).value
        halves = [estimate(self._times[phase]).half or 0.0 for phase in wanted]
        noise = max(halves) / max(step, 1e-9)
        return noise <= (ORDERING if self._budget.trials else NARROW) or self._waits()

    def _waits(self) -> bool:
        """Whether the step surely waits for its input most of the time, and how much is known."""
        pairs = zip(self._times.get(RESIDENT, ()), self._times[REAL], strict=False)
        lost = [1 - resident / max(real, 1e-9) for resident, real in pairs]
        if len(lost) < FEWEST:
            return False
        share = estimate(lost)
        half = share.half or 0.0
        return half <= NARROW and share.value - half > MOSTLY_WAITING

    def _least(self, seconds: float) -> int:
        """Steps that a block of so many seconds has at least."""
        wanted = math.ceil(seconds / max(self.step_estimate(), 1e-9))
        return 1 if self._crawls else max(FEWEST_STEPS, min(MIN_STEPS, wanted))

    def _settle(self) -> int:
        """Steps before a real block: what came before drained the input, and idled the devices."""
        if not self.queues or not self.step_estimate():
            return SETTLE_REAL
        return max(SETTLE_REAL, math.ceil(SETTLE_S / self.step_estimate()))

    def _block(self, phase: str, index: int, seconds: float) -> Block:
        block = Block(phase, index, seconds, min_steps=self._least(seconds))
        if phase in (REAL, PROFILE):
            block.settle = 0 if self.slow or (index == 0 and phase == REAL) else self._settle()
        elif phase in (RESIDENT, LOCAL):
            block.settle = SETTLE_RESIDENT
        if phase == RESIDENT and self._most_replayed is not None:
            block.max_steps = max(block.min_steps, self._most_replayed)
        return block


# The plan of several ranks has blocks of so many steps, the same on all of them.

SETTLE_RANKS = 3
FIRST = 4
"""At this step rank 0 says when the warm-up ends: the first compiles, allocates, tunes."""
WARM_UP_RANKS_S, MOST_STEPS = 3.0, 30
"""So long it lasts from there on, or as many steps."""
IDLE = "idle"
"""A block whose phase turned out to be impossible here: its steps count for nobody."""

ROUNDS_OF_RANKS = 7
"""No rank can ask for more of them later: two more than say something of the noise."""
SHARES_OF_RANKS = {REAL: 0.40, RESIDENT: 0.18, LOCAL: 0.24, INPUT: 0.18, PROFILE: 0.13}
"""Of the time for the first `FEWEST` rounds."""


class RankPlan(Plan):
    """The plan of one rank, by the word of rank 0.

    A block is over at a step that all ranks know from the start, whatever their clocks
    say: `begun` counts the steps that were begun.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        budget: Budget,
        phases: tuple[str, ...],
        world: World,
        kind: str,
    ) -> None:
        super().__init__(clock, budget, phases)
        self.begun = 0
        self._world = world
        self._loop = world.begin_loop(kind)
        self._second_at = 0.0
        self._early = 0  # durations before the first word
        self._ends = math.inf
        self._entered = 0
        self._blocks: list[dict[str, Any]] = []

    @property
    def settling(self) -> bool:
        return self.begun < self._entered + self.block.settle

    def arrived(self) -> bool:
        self.begun += 1
        if self.block.phase == WARM_UP:
            if self.begun == 2:
                self._second_at = self._clock()
            elif self.begun == FIRST:
                self._ends = self._world.word_of_first(self._loop, "warm", self._warm_until)
                self._early = len(self._durations)
            elif self.begun == self._ends:
                told = self._world.word_of_first(self._loop, "schedule", self._schedule_of_all)
                self._blocks, self._world.absent = told["blocks"], tuple(told["absent"])
        return self.begun >= self._ends

    def step_ended(self, seconds: float, usual: bool = True) -> bool:
        """Count a step that has ended; blocks end where `arrived` says so, not here."""
        warms = self.block.phase == WARM_UP
        if warms and usual:
            self._durations.append(seconds)
        self.block.steps += warms or self.block.started is not None
        return False

    def waits_every(self, steps: int) -> bool:
        """Blocks are agreed upon already."""
        return False

    def repeat_doubled(self) -> None:
        steps = 2 * (int(self._ends) - self._entered - self.block.settle)
        self.block.settle = self.block.steps = 0
        self.block.started = None
        self._entered = self.begun
        self._ends = self.begun + steps

    def advance(self) -> None:
        if not self._blocks:
            self.block = Block(DONE, 0, 0.0)
            return
        told = self._blocks.pop(0)
        self.block = Block(told["p"], told["b"], told["s"], settle=told["settle"])
        self._entered = self.begun
        self._ends = self.begun + told["settle"] + told["n"]

    def give_up(self, phase: str) -> None:
        """Take the steps of such blocks, as the other ranks do, but measure nothing."""
        if phase == INPUT:  # it has no steps
            self._blocks = [block for block in self._blocks if block["p"] != INPUT]
            if self.block.phase == INPUT:
                self.advance()
            return
        self._blocks = [
            block | {"p": IDLE} if block["p"] == phase else block for block in self._blocks
        ]
        if self.block.phase == phase:
            self.block.phase = IDLE

    def leave(self) -> None:
        """Say that this rank goes on unmeasured: where it is rank 0, nobody waits for its word."""
        self._world.say(f"{self._loop}-left", True)

    def step_estimate(self) -> float:
        """Seconds of a usual step: their mean, as steps between two averages are not alike."""
        timed = self._durations[self._early :]
        return sum(timed) / len(timed) if timed else super().step_estimate()

    def _warm_until(self) -> int:
        host_s = (self._clock() - self._second_at) / (FIRST - 2)  # its devices may be later
        step_s = max(host_s, *self._durations[1:], 1e-5)
        return FIRST + min(MOST_STEPS, max(2, math.ceil(WARM_UP_RANKS_S / step_s)))

    def _schedule_of_all(self) -> dict[str, Any]:
        """All blocks, in steps; nothing but real steps where ranks take no part.

        As many rounds as there is time for: no rank can ask for more of them later.
        """
        absent = self._world.missing(self._loop)
        phases = [p for p in (REAL, LOCAL, RESIDENT, INPUT) if p in self._phases]
        if absent:
            phases = [REAL]
        blocks: list[dict[str, Any]] = []
        left = self._budget.measure_by(self._clock()) - self._clock()
        for index in range(ROUNDS_OF_RANKS):
            made = [self._in_steps(phase, index) for phase in phases]
            if index == 0 and not absent:
                made.append(self._in_steps(PROFILE, 0))
            left -= sum((block["n"] + block["settle"]) * self.step_estimate() for block in made)
            if index >= (2 if self.slow else 3) and left < 0:
                break
            blocks += made
        return {"blocks": blocks, "absent": absent}

    def _in_steps(self, phase: str, index: int) -> dict[str, Any]:
        seconds = self._pace_s * SHARES_OF_RANKS[phase] / (1 if phase == PROFILE else FEWEST)
        steps = max(self._least(seconds), math.ceil(seconds / max(self.step_estimate(), 1e-5)))
        settle = 1 if self.slow else max(SETTLE_RANKS, self._settle())
        if phase == INPUT:
            steps = settle = 0
        elif phase == REAL and index == 0:
            settle = 0
        return {"p": phase, "b": index, "s": seconds, "n": steps, "settle": settle}

"""The phases of an observed training loop, and when each begins and ends.

    warm-up, then rounds of (real, local, resident, input), after the first one profile, done

Phases alternate so that drift of the machine falls on all of them alike. A block
counts its steps only after a few settling steps: after the input phase the
pipeline's buffers are empty, after the resident phase they are full, and neither is
how the loop normally runs.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

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
MIN_STEPS = 4
SLOW_STEP_S = 1.5
"""From this step time on a block makes do with two steps, and two rounds are enough."""
WARM_UP_STEPS = 40
WARM_UP_S = 6.0
SETTLED_WITHIN = 0.25
"""Warm-up ends when the last steps agree with their median within this share."""


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
    started: float | None = None


class Plan:
    """Says which phase the next step belongs to. Framework-neutral; a fake clock will do.

    `measure_s` is the time for all blocks, in seconds; `steps` fixes the number of
    real steps instead. `phases` names what can be had in this loop.
    """

    counts_only = False
    """Whether steps are only counted, not recorded one by one (legs of trials)."""

    def __init__(
        self,
        clock: Callable[[], float],
        measure_s: float,
        steps: int | None = None,
        phases: tuple[str, ...] = (REAL, RESIDENT, INPUT),
    ) -> None:
        self._clock = clock
        self._measure_s = measure_s
        self._steps = steps
        self._phases = phases
        self._durations: list[float] = []
        self._warm_up_from = clock()
        self._queue: list[Block] = []
        self._ends_by = float("inf")
        self.block = Block(WARM_UP, 0, WARM_UP_S)

    @property
    def phase(self) -> str:
        """The phase the next step belongs to."""
        return self.block.phase

    @property
    def wants_more(self) -> bool:
        """Whether the loop must go on for the plan to be complete."""
        return self.block.phase != DONE

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
        if self.settling or self.block.started is not None:
            return False
        self.block.started = self._clock()
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

    def drained(self) -> None:
        """Mark the input block as complete: the driver runs it as one piece."""
        self.advance()

    def advance(self) -> None:
        """Go to the next block, or to the end."""
        if self.block.phase == WARM_UP:
            self._schedule()
        if not self._queue or (self._clock() > self._ends_by and self.block.index > 0):
            self.block = Block(DONE, 0, 0.0)
            return
        self.block = self._queue.pop(0)

    def give_up(self, phase: str) -> None:
        """Take a phase that turned out to be impossible out of what is left."""
        self._queue = [block for block in self._queue if block.phase != phase]
        if self.block.phase == phase:
            self.advance()

    def step_estimate(self) -> float:
        """Seconds of a usual step, from the warm-up."""
        return statistics.median(self._durations[-5:]) if self._durations else 0.0

    @property
    def slow(self) -> bool:
        """Whether steps take so long that few of them must do."""
        return self.step_estimate() > SLOW_STEP_S

    def _settled(self) -> bool:
        if self.block.steps >= WARM_UP_STEPS:
            return True
        if self._clock() - self._warm_up_from > WARM_UP_S and self.block.steps >= 2:
            return True
        last = self._durations[-4:]
        if len(last) < 4:
            return False
        middle = statistics.median(last)
        return all(abs(one - middle) <= SETTLED_WITHIN * middle for one in last)

    def _complete(self, block: Block) -> bool:
        if block.started is None or block.steps < block.min_steps:
            return False
        return block.steps >= block.max_steps or self._clock() - block.started >= block.seconds

    def _schedule(self) -> None:
        slow = self.slow
        rounds = 2 if slow else 3
        self._ends_by = self._clock() + 3 * self._measure_s
        shares = {REAL: 0.42, RESIDENT: 0.24, INPUT: 0.24, LOCAL: 0.24}
        for index in range(rounds):
            for phase in (REAL, LOCAL, RESIDENT, INPUT):
                if phase in self._phases:
                    self._queue.append(
                        self._block(phase, index, self._measure_s * shares[phase] / rounds, slow)
                    )
            if index == 0:  # early, because a script may end before all rounds are done
                self._queue.append(self._block(PROFILE, 0, self._measure_s * 0.10, slow))

    def _block(self, phase: str, index: int, seconds: float, slow: bool) -> Block:
        block = Block(phase, index, seconds, min_steps=2 if slow else MIN_STEPS)
        if phase in (REAL, PROFILE):
            block.settle = 0 if slow or (index == 0 and phase == REAL) else SETTLE_REAL
        elif phase in (RESIDENT, LOCAL):
            block.settle = SETTLE_RESIDENT
        if phase == REAL and self._steps is not None:
            rounds = 2 if slow else 3
            block.min_steps = max(1, -(-self._steps // rounds))
            block.max_steps = block.min_steps
        return block

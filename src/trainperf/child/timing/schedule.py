"""The plan of a loop; that of several ranks has blocks of so many steps, the same on all ranks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..job.ranks import World
from ..process.process import Attempt
from .budget import Budget
from .estimating import FEWEST
from .loop import DONE, INPUT, LOCAL, PROFILE, REAL, RESIDENT, WARM_UP, Block, Plan

SETTLE = 3
FIRST = 4
"""At this step rank 0 says when the warm-up ends: the first compiles, allocates, tunes."""
WARM_UP_S, MOST_STEPS = 3.0, 30
"""So long it lasts from there on, or as many steps."""
IDLE = "idle"
"""A block whose phase turned out to be impossible here: its steps count for nobody."""

ROUNDS = 7
"""No rank can ask for more of them later: two more than say something of the noise."""
SHARES = {REAL: 0.40, RESIDENT: 0.18, LOCAL: 0.24, INPUT: 0.18, PROFILE: 0.13}
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

    # ------------------------------------------------------------------ internal

    def _warm_until(self) -> int:
        host_s = (self._clock() - self._second_at) / (FIRST - 2)  # its devices may be later
        step_s = max(host_s, *self._durations[1:], 1e-5)
        return FIRST + min(MOST_STEPS, max(2, math.ceil(WARM_UP_S / step_s)))

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
        for index in range(ROUNDS):
            made = [self._in_steps(phase, index) for phase in phases]
            if index == 0 and not absent:
                made.append(self._in_steps(PROFILE, 0))
            left -= sum((block["n"] + block["settle"]) * self.step_estimate() for block in made)
            if index >= (2 if self.slow else 3) and left < 0:
                break
            blocks += made
        return {"blocks": blocks, "absent": absent}

    def _in_steps(self, phase: str, index: int) -> dict[str, Any]:
        seconds = self._pace_s * SHARES[phase] / (1 if phase == PROFILE else FEWEST)
        steps = max(self._least(seconds), math.ceil(seconds / max(self.step_estimate(), 1e-5)))
        settle = 1 if self.slow else max(SETTLE, self._settle())
        if phase == INPUT:
            steps = settle = 0
        elif phase == REAL and index == 0:
            settle = 0
        return {"p": phase, "b": index, "s": seconds, "n": steps, "settle": settle}


def plan_of(driver: Any, phases: tuple[str, ...]) -> Any:
    """The plan of a loop: its own, one that its ranks agree on, slices of a leg."""
    settings = driver.process.settings
    if settings.get("leg") is None:
        limits = (driver.clock, Budget.of(driver), phases)
        if driver.world is None:
            return Plan(*limits, left=lambda: _steps_left(driver))
        return RankPlan(*limits, driver.world, driver.kind)
    from .legs.leg import Slices

    return Slices(driver, settings["leg"])


def _steps_left(driver: Any) -> int | None:
    with Attempt(driver.process, "how many steps the loop has left"):
        left: int | None = driver.steps_left()
        return left
    return None

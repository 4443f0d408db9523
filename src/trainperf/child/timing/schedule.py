"""The plan of a loop; that of several ranks has blocks of so many steps, the same on all ranks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..job.ranks import Agreement
from ..process.process import Attempt
from .budget import Budget
from .estimating import FEWEST
from .loop import DONE, INPUT, LOCAL, PROFILE, REAL, RESIDENT, WARM_UP, Block, Plan

SETTLE = 3
TIMED_STEPS = 10
TIMED_S = 0.5
"""So many warm-up steps, or two that take so long, say how long a step is: from one wait
for the device to the next, the last before the warm-up ends. A block has as many steps as
then go into its seconds."""
IDLE = "idle"
"""A block whose phase turned out to be impossible here: its steps count for nobody."""

ROUNDS = 7
"""No rank can ask for more of them later: two more than say something of the noise."""
SHARES = {REAL: 0.40, RESIDENT: 0.18, LOCAL: 0.24, INPUT: 0.18, PROFILE: 0.13}
"""Of the time for the first `FEWEST` rounds."""


class RankPlan(Plan):
    """The plan of one rank. Rank 0 makes the schedule once its warm-up has settled.

    A block is over at a step that all ranks know from the start, whatever their clocks
    say: `begun` counts the steps that were begun.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        budget: Budget,
        steps: int | None,
        phases: tuple[str, ...],
        agreement: Agreement,
    ) -> None:
        super().__init__(clock, budget, steps, phases)
        self.begun = 0
        self._agreement = agreement
        self._leads = agreement.world.rank == 0
        self._settled_once = False
        self._timed_from = 0, 0
        self._estimate: float | None = None
        self._ends = math.inf
        self._entered = 0
        self._blocks: list[dict[str, Any]] = []

    @property
    def settling(self) -> bool:
        return self.begun < self._entered + self.block.settle

    def arrived(self) -> bool:
        """Count the step that begins now; whether its block ends before it. Raises as `hear`."""
        self.begun += 1
        if self.block.phase == WARM_UP and self._ends == math.inf:
            self._agree()
        return self.begun >= self._ends

    def step_ended(self, seconds: float, usual: bool = True) -> bool:
        """Count a step that has ended; blocks end where `arrived` says so, not here."""
        if self.block.phase != WARM_UP:
            if self.block.started is not None:
                self.block.steps += 1
            return False
        if usual:
            self._durations.append(seconds)
        self.block.steps += 1
        self._settled_once = self._settled_once or self._settled()
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
        if phase == INPUT:
            self._blocks = [block for block in self._blocks if block["p"] != INPUT]
            if self.block.phase == INPUT:
                self.advance()
            return
        for block in self._blocks:
            if block["p"] == phase:
                block["p"] = IDLE
        if self.block.phase == phase:
            self.block.phase = IDLE

    def step_estimate(self) -> float:
        """Seconds of a usual step: once they were timed, with the device's part of them."""
        return super().step_estimate() if self._estimate is None else self._estimate

    # ------------------------------------------------------------------ internal

    def _agree(self) -> None:
        agreement = self._agreement
        if not self._leads:
            heard = agreement.hear(self.begun)
            if heard is not None:
                self._take(heard)
            return
        timed = self._timed()
        if self._settled_once and timed:
            agreement.ask()
        if not agreement.asked:
            return
        start = agreement.verdict(self.begun)
        if start is not None:
            schedule = {
                "from": start,
                "blocks": self._made(agreement.silent),
                "silent": list(agreement.silent),
            }
            agreement.publish(schedule)
            self._take(schedule)

    def _timed(self) -> bool:
        """Whether it is known how long a step takes, also where not all are alike.

        Steps between two averages of the weights can be a small part of that.
        """
        if self._agreement.asked or self.begun < 2:  # the first step compiles, allocates, tunes
            return self._agreement.asked
        begun, known = self._timed_from
        taken = self._durations[known:]
        enough = len(taken) >= TIMED_STEPS or (len(taken) >= 2 and sum(taken) >= TIMED_S)
        if begun and not enough and self.begun - begun < 4 * TIMED_STEPS:
            return False
        self._timed_from = self.begun, len(self._durations)
        if taken and begun:
            self._estimate = sum(taken) / len(taken)
        return begun > 0

    def _take(self, schedule: dict[str, Any]) -> None:
        self._ends = schedule["from"]
        self._blocks = [dict(block) for block in schedule["blocks"]]
        self._agreement.world.absent = tuple(schedule["silent"])

    def _made(self, silent: tuple[int, ...]) -> list[dict[str, Any]]:
        """All blocks, in steps; nothing but real steps where ranks did not answer.

        As many rounds as there is time for: no rank can ask for more of them later.
        """
        phases = [p for p in (REAL, LOCAL, RESIDENT, INPUT) if p in self._phases]
        if silent:
            phases = [REAL]
        blocks: list[dict[str, Any]] = []
        left = self._budget.measure_by(self._clock()) - self._clock()
        for index in range(ROUNDS if self._steps is None else min(ROUNDS, self._steps)):
            made = [self._in_steps(phase, index) for phase in phases]
            if index == 0 and not silent:
                made.append(self._in_steps(PROFILE, 0))
            left -= sum((block["n"] + block["settle"]) * self.step_estimate() for block in made)
            if index >= (2 if self.slow else 3) and left < 0:
                break
            blocks += made
        return blocks

    def _in_steps(self, phase: str, index: int) -> dict[str, Any]:
        seconds = self._pace_s * SHARES[phase] / (1 if phase == PROFILE else FEWEST)
        steps = max(self._least(seconds), math.ceil(seconds / max(self.step_estimate(), 1e-5)))
        if phase == REAL and self._steps is not None:
            rounds = min(ROUNDS, self._steps)
            steps = self._steps // rounds + (index < self._steps % rounds)
        first = phase == REAL and index == 0
        settle = 0 if first or phase == INPUT else 1 if self.slow else max(SETTLE, self._settle())
        n = 0 if phase == INPUT else steps
        return {"p": phase, "b": index, "s": seconds, "n": n, "settle": settle}


def plan_of(driver: Any, phases: tuple[str, ...]) -> Any:
    """The plan of a loop: its own, one that its ranks agree on, slices of a leg."""
    settings = driver.process.settings
    if settings.get("leg") is None:
        limits = (driver.clock, Budget.of(driver), settings.get("steps"), phases)
        if driver.world is None:
            return Plan(*limits, left=lambda: _steps_left(driver))
        return RankPlan(*limits, driver.world.agreement(driver.kind))
    from .legs import leg

    slices = leg.Slices(driver.training, settings["leg"])
    slices.epochs = lambda: driver.epochs_ended
    slices.describe = lambda: leg.describe(driver)
    return slices


def _steps_left(driver: Any) -> int | None:
    with Attempt(driver.process, "how many steps the loop has left"):
        left: int | None = driver.steps_left()
        return left
    return None

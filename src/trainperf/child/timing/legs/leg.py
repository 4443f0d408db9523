"""One leg of a trial: warm up, then run slice after slice, stopped in between.

A slice ends at the boundary of a step. The leg waits for the device, writes down what
the slice took, says so, and stops itself with SIGSTOP, together with its process
group: neither queued kernels nor busy prefetchers run on into the neighbour's slice.
trainperf stops whatever else belongs to the leg, and wakes all with SIGCONT.

The ranks of a job wait for each other in every step, so all must warm up for, and run,
the same number of steps: no rank decides by its clock, and none stops itself, as that
could stop another of its process group within a step. Each waits until trainperf, once
all have said that their slice is complete, stops them together.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from typing import Any

from ..estimating import steady
from ..loop import REAL, WARM_UP, Block
from . import words

LONGEST_WARM_UP_S = 5.0
"""A leg whose steps do not settle starts its slices after so many seconds of warm-up, counted from
the last step in which something was compiled."""
MOST_COMPILING = 12
"""A leg in which more steps than that traced or compiled something does so in all of them."""
WARM_UP_OF_RANKS = 12
"""So many steps the ranks of a job warm up for at least, whatever steps take."""
ASK_AGAIN_S = 0.0005


class Slices:
    """The plan of a leg, in the place of `loop.Plan`: real steps of a loop only, without end."""

    slow = False
    counts_only = True
    queues = False

    def __init__(self, driver: Any, settings: dict[str, Any]) -> None:
        self._driver = driver
        self._training = driver.training
        self._record = driver.record
        self._clock = driver.clock
        self._words = words.Words(driver.process.settings["folder"])
        self._warm_up_steps = int(settings["warm_up_steps"])
        self._warm_up_epochs = int(settings["warm_up_epochs"])
        self._pass_steps = int(settings["pass_steps"])
        self._durations: list[float] = []
        self._compiling = 0
        self._began = self._clock()
        self._paused = self._words[words.PAUSED]
        self._updates = 0
        self._retries = 0
        self._work, self._shorter = 0, (0, 0)
        self.steps_per_call = 1
        self._holds = words.STEPS_ONLY
        self._epochs_before = 0
        self.block = Block(WARM_UP, 0, 0.0)
        self._begun = self._entered = self._of_slice = 0
        self._announced = int(settings.get("ranks") or 1)
        if self._words[self._over]:  # slices of an earlier loop, or of another process
            self._words[words.ANEW] = 1

    @property
    def ranks(self) -> int:
        """How many processes take the same steps."""
        world = self._driver.world
        return max(self._announced, world.size if world is not None else 1)

    @property
    def _over(self) -> int:
        """The word by which this process says that its slice is complete."""
        world = self._driver.world
        return words.OVER + (0 if world is None else min(int(world.rank), words.MOST_RANKS - 1))

    @property
    def whole_epochs(self) -> bool:
        return self._holds != words.STEPS_ONLY

    @property
    def as_written(self) -> bool:
        return self._holds == words.AS_WRITTEN

    @property
    def wants_more(self) -> bool:
        """Whether the input is opened again where it ends, so that the loop goes on."""
        return not self.as_written

    @property
    def phase(self) -> str:
        return self.block.phase

    @property
    def settling(self) -> bool:
        if self.ranks > 1:
            return self._begun < self._entered + self.block.settle
        return self.block.settle > 0

    def begin_if_settled(self) -> bool:
        if self.block.phase == WARM_UP or self.settling or self.block.started is not None:
            return False
        self.block.started = self._clock()
        self._epochs_before = self._driver.epochs_ended
        return True

    def step_estimate(self) -> float:
        return statistics.median(self._durations[-5:]) if self._durations else 0.0

    def arrived(self) -> bool:
        """Count the step that begins now; whether the warm-up or the slice ends before it.

        Only so for ranks: they have to end at the same step, also where one of them
        leaves a step out of its times that another does not (it traced).
        """
        if self.ranks == 1:
            return False
        self._begun += 1
        done = self._begun - self._entered
        if self.block.phase == WARM_UP:
            least = max(WARM_UP_OF_RANKS, self._warm_up_steps)
            return done > least and self._passes(done) >= self._warm_up_epochs
        return done >= self._of_slice

    def step_ended(self, seconds: float, usual: bool = True) -> bool:
        block = self.block
        if block.phase == WARM_UP:
            self._words[words.WARMS] = 1
            stopped = self._stopped()
            seconds -= stopped if stopped < seconds else 0.0  # else it stood before the step
            block.steps += 1
            self._compiling += not usual
            if usual or self._compiling > MOST_COMPILING:
                self._durations.append(seconds)
            else:  # what was traced or compiled is no step that does not settle
                self._began = self._clock()
            return self.ranks == 1 and self._warm()
        work = self._work_of_call()
        if self.ranks == 1 and block.settle > 0:
            block.settle -= 1
            return False
        if block.started is not None:
            block.steps += 1
            self._work += work
        return self.ranks == 1 and block.steps >= block.max_steps

    def repeat_doubled(self) -> None:
        """Take the slice once more, with twice its steps; both make one."""
        block = self.block
        steps = 2 * (self._of_slice - block.settle if self.ranks > 1 else block.max_steps)
        self._shorter = self._work, self._driver.epochs_ended - self._epochs_before
        self._work = 0
        self.block = Block(REAL, block.index, 0.0, steps, steps)
        self._entered, self._of_slice = self._begun, steps

    def advance(self) -> None:
        """Say that the slice is complete, and wait to be given the next one."""
        index, record = self.block.index, self._record
        if self.block.phase == WARM_UP:
            self._describe()
        else:
            if self.steps_per_call > 1:
                record.write("work", b=index, n=self._work - self._shorter[0])
            if self.whole_epochs:
                opened = self._driver.epochs_ended - self._epochs_before - self._shorter[1]
                record.write("epochs", b=index, n=opened)
        self._work, self._shorter = 0, (0, 0)
        known, self._retries = self._retries, self._training.retries()
        if self._retries > known and self.block.phase != WARM_UP:  # the device's memory ran short
            record.write("retries", b=index, n=self._retries - known)
        if (losses := self._training.losses) is not None:
            losses.flush()
            self._updates = losses.updates
        record.flush()
        turn = index + 1
        self._words[self._over] = turn
        while self._words[words.TURN] < turn:
            if self._words[words.ALONE]:
                os.killpg(os.getpgrp(), signal.SIGSTOP)
            time.sleep(ASK_AGAIN_S)
        steps, self._holds = max(1, self._words[words.STEPS]), self._words[words.EPOCHS]
        self.block = Block(REAL, turn, 0.0, steps, steps, settle=self._words[words.SETTLE])
        self._entered, self._of_slice = self._begun, self.block.settle + steps

    def give_up(self, phase: str) -> None:
        """Nothing but real steps is planned."""

    def _work_of_call(self) -> int:
        """How many steps the last call held: fewer than usual at the end of an epoch.

        Calls that did not count since the last one that did (an epoch's first) held as
        many as usual.
        """
        losses = self._training.losses
        if self.steps_per_call == 1 or losses is None:
            return self.steps_per_call
        new, self._updates = losses.updates - self._updates, losses.updates
        return (new - 1) % self.steps_per_call + 1 if new > 0 else self.steps_per_call

    def _stopped(self) -> float:
        """Seconds since this was asked last in which trainperf let others run instead."""
        before, self._paused = self._paused, self._words[words.PAUSED]
        seconds = (self._paused - before) / words.PER_S
        self._began += seconds
        return seconds

    def _passes(self, steps: int) -> int:
        """How often a warm-up of so many steps has gone over the data."""
        drawn = steps // self._pass_steps if self._pass_steps else 0
        return max(int(self._driver.epochs_ended), drawn)

    def _warm(self) -> bool:
        steps = self.block.steps
        if steps < self._warm_up_steps or self._passes(steps) < self._warm_up_epochs:
            return False
        return self._clock() - self._began > LONGEST_WARM_UP_S or steady(self._durations)

    def _describe(self) -> None:
        """Record what trainperf must know of the loop to compare its steps with another's.

        What the warm-up queued is waited for: it must not run on beside the first steps, and the
        tuning, of the next leg.
        """
        self._driver.sync()
        calls = self.steps_per_call = self._driver.loops.steps_per_call(self._driver)
        cpu = sum(os.times()[:4])
        self._record.write("leg", steps_per_call=calls, steps=self.block.steps, cpu=cpu)

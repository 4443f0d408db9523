"""Lead a loop from one block of its plan to the next: what each phase needs, and its end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import process
from typing import Any

from ..job import ranks
from ..process.process import Attempt, in_words
from ..process.stacks import StackSampler
from .loop import INPUT, LOCAL, PROFILE, RESIDENT, WARM_UP

REST_S = 1.0
TRIES = 2
"""Ahead of a resident block the input may fill its buffers for so long: on few cores it would take
them from the steps. Where they are not full by then, so often, they take longer than that."""

LOOK_S = 0.03
_REST = 0.15
"""Cores in use, by this process and its workers, below which they rest."""


class Phases:
    """Sets up what a phase needs before its steps, and takes it back after them.

    `exchange` is what switches the exchange of gradients off and on, once it was found.
    """

    def __init__(self, driver: Any) -> None:
        self.exchange: Any = None
        self._driver = driver
        self._stacks: StackSampler | None = None
        self._busy = 0  # times in which the input had no end of what it prepares

    def look_for_exchange(self) -> None:
        """Find the exchange of gradients, but for a leg: it runs real steps only."""
        driver = self._driver
        if driver.process.settings.get("leg") is not None:
            return
        with Attempt(driver.process, "finding the exchange of gradients"):
            self.exchange = driver.loops.exchange
        if self.exchange is not None:
            driver.plan.exchanges()

    def next(self) -> None:
        """Leave the block that is over, and enter the next one."""
        plan, world = self._driver.plan, self._driver.world
        if plan.phase == WARM_UP and world is not None and world.absent:
            reason = ranks.silent_text(world.absent)
            for what in (RESIDENT, LOCAL, INPUT, "split"):
                self._missing(what, reason)
        self.end_profile()
        if plan.phase == LOCAL:
            self._exchange_again()
        plan.advance()
        self._enter()

    def drain(self) -> None:
        """Drain the input alone, as one piece; record when each batch came."""
        driver, block = self._driver, self._driver.plan.block
        try:
            if driver.world is not None and driver.loops.shared_input:
                raise Exhausted(driver.loops.shared_input)
            marks, began = drain(driver, block.seconds)
        except Exhausted as error:
            reason = str(error)
        except Exception as error:
            reason = f"draining it failed: {in_words(error)}"
        else:
            driver.record.write("input", b=block.index, s=began, marks=marks)
            self.next()
            return
        self._missing("input", reason)
        driver.plan.give_up(INPUT)
        self._enter()

    def end_profile(self) -> None:
        """Record the stacks that were sampled, if steps are being profiled."""
        stacks, self._stacks = self._stacks, None
        if stacks is None:
            return
        try:
            self._driver.profile_ends()
        finally:
            counts = stacks.stop()
            with Attempt(self._driver.process, "the stacks of the steps"):
                self._driver.record.write("stacks", counts=counts, **stacks.seen())

    def end(self) -> None:
        """Leave the loop alone, whatever is under way: it is over, or timing it has failed."""
        self._exchange_again()
        with Attempt(self._driver.process, "ending the profile of a loop"):
            self.end_profile()

    def _enter(self) -> None:
        driver, plan = self._driver, self._driver.plan
        if plan.phase == LOCAL and not self._prepared(LOCAL, self._stop_exchange):
            self._exchange_again()  # it may have been switched off in part
        ready = plan.phase == RESIDENT and self._prepared(RESIDENT, driver.prepare_resident)
        if ready and self._busy < TRIES and not driver.device.asynchronous:
            self._busy += not rests(REST_S)
        if plan.phase == PROFILE and self._stacks is None:
            self._stacks = StackSampler(
                over=driver.stale,
                between=driver.between,
                compiling=lambda: driver.loops.compiling,
            )
            self._stacks.start()
            driver.profile_begins()
        driver.record.write("phase", p=plan.phase, b=plan.block.index)
        driver.reads.mark()

    def _prepared(self, phase: str, prepare: Callable[[], str]) -> bool:
        """Whether what a phase needs could be set up; it is given up, with the reason, if not."""
        try:
            reason = prepare()
        except Exception as error:
            reason = in_words(error)
        if reason:
            self._missing(phase, reason)
            self._driver.plan.give_up(phase)
        return not reason

    def _stop_exchange(self) -> str:
        reason: str = "nothing is exchanged" if self.exchange is None else self.exchange.off()
        return reason

    def _exchange_again(self) -> None:
        """Leave the loop as it is by itself: a rank that exchanges nothing hangs the others."""
        if self.exchange is not None:
            self.exchange.on()

    def _missing(self, what: str, reason: str) -> None:
        self._driver.record.write("missing", what=what, reason=reason)


def rests(
    most_s: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    used: Callable[[], float] | None = None,
) -> bool:
    """Wait for at most so many seconds; return whether nothing is computed any more.

    For the thread that asks nothing else may be under way: then what is computed here is what
    threads and worker processes prepare, until their buffers are full.
    """
    used = used or Busy().seconds
    until = clock() + most_s
    at, before = clock(), used()
    while True:
        sleep(LOOK_S)
        now, after = clock(), used()
        if after - before < _REST * (now - at):
            return True
        if now >= until:
            return False
        at, before = now, after


class Busy:
    """For how long this process and its living workers have computed; the thread that asks is left
    out."""

    def __init__(self) -> None:
        self._before: dict[int, float] = {}
        self._seconds = 0.0

    def seconds(self) -> float:
        """Their seconds so far, those of workers that ended since they were looked at included."""
        own = os.getpid()
        workers = (worker.pid for worker in tuple(process._children) if worker.pid)  # type: ignore[attr-defined]
        now = dict[int, float]()
        for pid in (own, *workers):
            # By its own clock (`clock_getcpuclockid`), read as of now: what the scheduler has
            # counted lags behind.
            with suppress(OSError):
                now[pid] = time.clock_gettime((~pid << 3) | 2)
        now[own] = now.get(own, 0.0) - time.thread_time()
        for pid, seconds in now.items():
            self._seconds += max(0.0, seconds - self._before.get(pid, 0.0))
        self._before = now
        return self._seconds


# Drain the input of a loop alone: how soon batches come where no model waits for them.

MIN_DRAINED = 4
DRAINED_EPOCHS = 8
"""A drain ends after so many passes over short data: opening iterators by the hundred
leaves TensorFlow with threads to clean up that stall what comes next."""

FRUITLESS_EPOCHS = 4 * DRAINED_EPOCHS
"""After so many passes that gave too few batches, an epoch is too short to be drained: all of
its batches may come with its opening."""


class Exhausted(Exception):  # noqa: N818 - an outcome, not an error
    """The input gives no further batch to be timed; the words say why."""

    def __init__(self, reason: str = "the input ran out") -> None:
        super().__init__(reason)


def drain(driver: Any, seconds: float) -> tuple[list[tuple[float, int]], float]:
    """Take batches for `seconds`; return when so many had come, and when it began.

    The times are in seconds since the beginning, without what opening the input again
    took. Raises `Exhausted` where too few batches come, and what the input itself raises.
    """
    marks: list[tuple[float, int]] = []
    began = driver.clock()
    drained, chunk, restarting = 0, 1, 0.0
    epochs = driver.epochs_ended
    least = (2 if driver.plan.slow else MIN_DRAINED) + 2 * driver.buffered()
    while True:
        before = driver.clock()
        driver.restarts = 0.0
        got = driver.pull(chunk)
        if driver.restarts and chunk > 1:
            # The old iterator is torn down in the background and stalls what is
            # taken after it as well: such a run of batches counts for nobody.
            restarting += driver.clock() - before
            got, chunk = 0, chunk // 2
        else:
            restarting += driver.restarts
        drained += got
        now = driver.clock() - restarting
        if got:
            marks.append((round(now - began, 7), drained))
        passes = driver.epochs_ended - epochs
        if drained >= least and (now - began >= seconds or passes >= DRAINED_EPOCHS):
            return marks, began
        if drained < least and passes >= FRUITLESS_EPOCHS:
            raise Exhausted("an epoch has too few batches to time them apart from its opening")
        if now + restarting - before < 0.004 and chunk < 1024:
            chunk *= 2

"""`--trace`: the last steps of a loop under the framework's own tracer.

All else was timed by then, and their times enter no figure. Two steps settle; under the tracer as
many come without a mark, of which the first pays for its start, and which fill the queue of a
device that runs later than the host; then come those with a mark.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ..process.process import Attempt, Unseen
from .budget import LACKING, Budget

if TYPE_CHECKING:
    from .loops import Tracer

WHAT = "a trace of a few steps"
PHASE = "trace"
SETTLE = 2
STEPS = 5
STEPS_S = 5.0
"""So many steps are marked, or as many as go into so many seconds: one at least."""
GRACE_S = 10.0
"""Seconds that reading and writing a trace may take, beside its steps."""


class NotTraced(Exception):  # noqa: N818 - names an outcome
    """Why no step is traced, in words for the report."""


def begin(driver: Any) -> Tracing | None:
    """The tracing of the steps that follow; None where it was not asked for, or cannot be."""
    settings = driver.process.settings
    if not settings.get("trace") or settings.get("leg") is not None:
        return None
    try:
        tracer = driver.tracer()
        if tracer is None:
            raise NotTraced("this kind of loop cannot be traced")
        return Tracing(driver, tracer, *_agreed(driver))
    except Exception as error:
        _missing(driver, error)
        return None


def _agreed(driver: Any) -> tuple[int, int]:
    """How many steps settle and how many are marked, the same on all ranks of a job."""
    step_s = driver.plan.step_estimate()
    steps = max(1, min(STEPS, int(STEPS_S / max(step_s, 1e-6))))
    settle = 0 if driver.plan.slow else SETTLE
    if 2 * (2 * settle + steps) * step_s > Budget.of(driver).end - driver.clock():
        steps = 0
    if driver.world is not None:
        if driver.world.absent:
            raise NotTraced("some ranks are not observed, and would not take these steps")
        said = driver.world.all_say("traced-steps", (settle, steps))
        settle, steps = said[0] if said is not None else (0, 0)
    if not steps:
        raise NotTraced(LACKING)
    return settle, steps


class Tracing:
    """The steps that are traced, from the boundary at which all else was measured.

    Of several ranks the first is traced; all take the same steps, whatever fails on one.
    """

    def __init__(self, driver: Any, tracer: Tracer, settle: int, steps: int) -> None:
        self._driver = driver
        self._tracer = tracer
        self._settle, self._steps = settle, steps
        self._taken = self._marked = 0
        self._idle = driver.world is not None and driver.world.rank != 0
        self._running = self._over = False
        self._mark = ExitStack()
        limit_s = 2 * (2 * settle + steps) * driver.plan.step_estimate() + GRACE_S
        driver.record.write("tracing", limit_s=limit_s)
        driver.record.write("phase", p=PHASE, b=0)
        driver.record.flush()

    def boundary(self) -> bool:
        """A step ends and the next one begins; whether that is still one of these."""
        if self._over:
            return False
        number = self._taken - 2 * self._settle
        self._attempt(lambda: self._turn(number))
        self._taken += 1
        self._over = number == self._steps or (self._idle and self._driver.world is None)
        return not self._over

    def end(self, reason: str) -> None:
        """No step follows, for this `reason`: keep those that were traced."""
        if not self._over:
            self._over = True
            self._attempt(lambda: self._close(reason))

    def _turn(self, number: int) -> None:
        self._mark.close()
        if number == self._steps:
            self._close()
            return
        if self._taken == self._settle:
            if reason := self._tracer.refusal():
                raise NotTraced(reason)
            with Unseen(self._driver.process):
                self._tracer.start()
            self._running = True
        if number >= 0:
            self._mark.enter_context(self._tracer.step(number))
            self._marked = number + 1

    def _close(self, reason: str = "") -> None:
        self._mark.close()
        if not self._marked:
            raise NotTraced(reason)
        self._stop()
        file = os.path.join(self._driver.process.settings["folder"], f"trace-{os.getpid()}.json")
        with Unseen(self._driver.process):
            note = self._tracer.save(file)
        self._driver.record.write("traced_steps", steps=self._marked, file=file, note=note)
        self._driver.record.flush()

    def _stop(self) -> None:
        if self._running:
            self._running = False
            with Unseen(self._driver.process):
                self._tracer.stop()

    def _attempt(self, act: Callable[[], None]) -> None:
        if self._idle:
            return
        try:
            act()
        except Exception as error:
            self._idle = True
            _missing(self._driver, error)
            with Attempt(self._driver.process, "stopping the tracer"):
                self._stop()


def _missing(driver: Any, error: Exception) -> None:
    reason = str(error) if isinstance(error, NotTraced) else f"{type(error).__name__}: {error}"
    driver.record.write("missing", what=WHAT, reason=reason[:500])
    driver.record.flush()

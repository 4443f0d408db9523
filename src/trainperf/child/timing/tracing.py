"""The last steps of a loop under the framework's own tracer.

All else was timed by then, and their times enter no figure. With `--trace` two steps settle; under
the tracer as many come without a mark, of which the first pays for its start, and which fill the
queue of a device that runs later than the host; then come those with a mark. Without it a few steps
are traced to be read, and no file is left.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from ..process.process import Attempt, Unseen
from . import completing
from .budget import LACKING, Budget

if TYPE_CHECKING:
    from .loops import Tracer

WHAT = "a trace of a few steps"
LINES = "the operators of each line"
PHASE = "trace"
SETTLE = 2
STEPS = 5
STEPS_S = 5.0
"""So many steps are marked, or as many as go into so many seconds: one at least."""
READ_STEPS, LONGEST_READ_S = 3, 1.0
SLOWED = 4
"""Steps that are only read: so many, none where one takes longer. Of the time that they take usual
steps so much is allowed for: the tracer slows steps of many small operators."""
READING_S = 1.0
GRACE_S = 10.0
"""Seconds that reading and writing a trace may take, beside its steps."""


class NotTraced(Exception):  # noqa: N818 - names an outcome
    """Why no step is traced, in words for the report."""


def begin(driver: Any) -> Tracing | None:
    """The tracing of the steps that follow; None where it is not wanted, or cannot be."""
    settings = driver.process.settings
    asked = bool(settings.get("trace"))
    if settings.get("leg") is not None:
        return None
    try:
        tracer = driver.loops.tracer(driver)
        if tracer is None and asked:
            raise NotTraced("this kind of loop cannot be traced")
        if tracer is None or not (asked or tracer.short):
            return None
        if driver.world is not None:
            raise NotTraced(completing.ALONE)
        return Tracing(driver, tracer, *_steps(driver, tracer.late, asked), asked)
    except Exception as error:
        _missing(driver, error, asked)
        return None


def _steps(driver: Any, late: bool, asked: bool) -> tuple[int, int, int]:
    """How many steps settle, go unmarked and are marked."""
    step_s, now, budget = driver.plan.step_estimate(), driver.clock(), Budget.of(driver)
    if asked:
        steps = max(1, min(STEPS, int(STEPS_S / max(step_s, 1e-6))))
        settle = 0 if driver.plan.slow else SETTLE
        if now + 2 * (2 * settle + steps) * step_s > budget.end:
            raise NotTraced(LACKING)
        return settle, settle, steps
    if step_s > LONGEST_READ_S:
        raise NotTraced(f"a step takes {step_s:.2g} s, too long to be traced")
    takes_s = SLOWED * (1 + READ_STEPS) * step_s + READING_S
    if now + takes_s > min(budget.extra_by(now), budget.end):
        raise NotTraced(budget.lacking(takes_s, now))
    return int(not late), int(late), READ_STEPS


class Tracing:
    """The steps that are traced, from the boundary at which all else was measured.

    `settle` come before the tracer, `unmarked` and `steps` under it; a file is left that was
    `asked` for.
    """

    def __init__(
        self, driver: Any, tracer: Tracer, settle: int, unmarked: int, steps: int, asked: bool
    ) -> None:
        self._driver = driver
        self._tracer = tracer
        self._asked = asked
        self._turns = self._take(settle, unmarked, steps)
        self._ended = ""  # why no step follows
        self._over = self._waits = False
        limit_s = 2 * (settle + unmarked + steps) * driver.plan.step_estimate() + GRACE_S
        driver.record.write("tracing", limit_s=limit_s)
        driver.record.write("phase", p=PHASE, b=0)
        driver.record.flush()
        self._attempt(self._next)

    def boundary(self) -> bool:
        """A step ends and the next one begins; whether that is still one of these."""
        if self._waits:
            self._give_up(NotTraced("no call of the framework's was seen between two steps"))
        self._waits = True
        self._attempt(lambda: self._tracer.outside(lambda: self._attempt(self._next)))
        if self._over:
            self._drop()
        return not self._over

    def end(self, reason: str) -> None:
        """No step follows, for this `reason`: keep those that were traced."""
        self._ended = reason
        self._attempt(self._next)
        self._over = True
        self._drop()

    def _take(self, settle: int, unmarked: int, steps: int) -> Generator[None, None, None]:
        """Each turn is what is done between two steps; the first, before the one under way."""
        tracer, driver, marked = self._tracer, self._driver, 0
        if reason := tracer.refusal(self._asked):
            raise NotTraced(reason)
        for _ in range(1 + settle):
            yield
            self._goes_on()
        with Unseen(driver.process):
            tracer.start()
        try:
            for _ in range(unmarked):
                yield
                self._goes_on()
            while marked < steps and not (self._ended or (marked and self._full())):
                with tracer.step(marked):
                    marked += 1
                    yield
        finally:
            with Unseen(driver.process):
                tracer.stop()
        with Unseen(driver.process):
            if self._asked:
                file = os.path.join(driver.process.settings["folder"], f"trace-{os.getpid()}.json")
                note = tracer.save(file)
                driver.record.write("traced_steps", steps=marked, file=file, note=note)
            tracer.read()
        driver.record.flush()

    def _goes_on(self) -> None:
        if self._ended:
            raise NotTraced(self._ended)

    def _full(self) -> bool:
        return not self._asked and self._tracer.full

    def _next(self) -> None:
        self._waits = False
        self._over = next(self._turns, self) is self

    def _attempt(self, act: Callable[[], None]) -> None:
        if not self._over:
            try:
                act()
            except Exception as error:
                self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        if not self._over:
            self._over = True
            _missing(self._driver, error, self._asked)
            with Attempt(self._driver.process, "stopping the tracer"):
                self._turns.close()

    def _drop(self) -> None:
        with Attempt(self._driver.process, "leaving the tracer"):
            self._tracer.drop()


def _missing(driver: Any, error: Exception, asked: bool) -> None:
    reason = str(error) if isinstance(error, NotTraced) else f"{type(error).__name__}: {error}"
    driver.record.write("missing", what=WHAT if asked else LINES, reason=reason[:500])
    driver.record.flush()

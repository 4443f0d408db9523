"""Trace a few steps of the running loop under the framework's own tracer: `--trace`.

These are the last steps: all else was timed by then, and their times enter no figure. After
two that settle, one step pays for the tracer's own start; then come those that are kept. A
device that runs later than the host stands idle where the tracer was started: steps that are
traced but not kept fill its queue again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..process.lines import LineSampler
from .budget import LACKING, Budget

if TYPE_CHECKING:
    from .driven_loop import DrivenLoop
    from .tracer import Tracer

WHAT = "a trace of a few steps"
PHASE = "trace"
SETTLE, LEAD, FILL, STEP, OVER = "settle", "lead", "fill", "step", "over"

SETTLE_STEPS = 2
STEPS = 5
STEPS_S = 5.0
"""So many steps are traced, or as many as go into so many seconds: one at least."""
MOST_EVENTS = 300_000
"""Events that a process may trace, so that its file can be opened: about 80 MB of JSON."""
GRACE_S = 10.0
"""Seconds that reading and writing a trace may take, beside its steps."""


class NotTraced(Exception):  # noqa: N818 - names an outcome
    """Why no step is traced, in words for the report."""


def begin(driver: DrivenLoop) -> Tracing | None:
    """The tracing of the steps that follow; None where it was not asked for, or cannot be."""
    settings = driver.process.settings
    if not settings.get("trace") or settings.get("leg") is not None:
        return None
    tracer = None
    try:
        tracer = driver.tracer()
        roles = _agreed(driver)
        if tracer is None:
            raise NotTraced("this kind of loop cannot be traced")
        return Tracing(driver, tracer, roles)
    except Exception as error:
        _missing(driver, tracer, error)
        return None


def _agreed(driver: DrivenLoop) -> list[str]:
    """The roles of the steps that follow, the same on all ranks of a job."""
    step_s = driver.plan.step_estimate()
    steps = max(1, min(STEPS, int(STEPS_S / max(step_s, 1e-6))))
    settle = 0 if driver.plan.slow else SETTLE_STEPS
    fill = settle if driver.device.asynchronous else 0
    if 2 * (settle + 1 + fill + steps) * step_s > Budget.of(driver).end - driver.clock():
        steps = 0
    if driver.world is not None:
        if driver.world.absent:
            raise NotTraced("some ranks are not observed, and would not take these steps")
        told = driver.world.told("traced-steps", (settle, fill, steps))
        settle, fill, steps = told or (0, 0, 0)
    if not steps:
        raise NotTraced(LACKING)
    return [SETTLE] * settle + [LEAD] + [FILL] * fill + [STEP] * steps


class Tracing:
    """The steps that are traced, from the boundary at which all else was measured."""

    def __init__(self, driver: DrivenLoop, tracer: Tracer, roles: list[str]) -> None:
        self._driver = driver
        self._tracer = tracer
        self._roles = roles
        self._role = ""
        self._running = self._broken = self._over = False
        self._number = 0
        self._step: dict[str, Any] = {}
        self._steps: list[dict[str, Any]] = []
        self._notes: list[str] = []
        self._lines: LineSampler | None = None
        step_s = driver.plan.step_estimate()
        limit_s = 2 * len(self._roles) * step_s + GRACE_S
        driver.record.write("tracing", limit_s=limit_s)
        driver.record.write("phase", p=PHASE, b=0)
        driver.record.flush()

    def boundary(self) -> bool:
        """A step ends and the next one begins; whether that is still one of these.

        Where tracing has failed, a rank takes the steps all the same, as the others do.
        """
        if self._over:
            return False
        before = self._role
        self._role = self._roles.pop(0) if self._roles else OVER
        self._attempt(lambda: self._turn(before))
        if self._role == OVER or (self._broken and self._driver.world is None):
            self._over = True
        return not self._over

    def waited(self, seconds: float) -> None:
        """The loop has just waited so long for its batch."""
        if self._step:
            now = self._driver.clock()
            self._step["waits"].append((now - seconds, now))

    def end(self, reason: str) -> None:
        """No step follows, for this `reason`: keep those that were traced."""
        if self._over:
            return
        self._over = True
        self._attempt(lambda: self._end(reason))

    # ------------------------------------------------------------------ internal

    def _turn(self, before: str) -> None:
        self._step_ended(before)
        if before == LEAD:
            self._lead_over()
        role = self._role
        if role == OVER:
            self._within(self._tracer.trace_passes)
            self._close()
            return
        if role != SETTLE and not self._running:
            self._start()
            if role != LEAD:
                self._lines = LineSampler(self._driver.plan.step_estimate())
                self._lines.start()
        if role in (LEAD, STEP):
            self._step = {"begin": self._driver.clock(), "waits": []}
            self._tracer.step_begins(self._number)

    def _step_ended(self, role: str) -> None:
        if not self._step:
            return
        self._tracer.step_ends()
        step, self._step = self._step, {}
        if role == STEP:
            self._steps.append({**step, "end": self._driver.clock(), "n": self._number})
            self._number += 1

    def _start(self) -> None:
        reason = self._tracer.refusal()
        if reason:
            raise NotTraced(reason)
        self._within(self._tracer.start)
        self._running = True

    def _stop(self) -> int:
        self._running = False
        return int(self._within(self._tracer.stop))

    def _lead_over(self) -> None:
        """The first step that was traced says how many a file can hold."""
        events = self._stop()
        if self._driver.world is not None:  # all ranks take the same steps
            return
        if events > MOST_EVENTS:
            raise NotTraced(
                f"one step is {events:,} events of the tracer; more than {MOST_EVENTS:,} would "
                "make a file that no viewer opens"
            )
        fit = max(1, MOST_EVENTS // max(1, events))
        if fit < len(self._roles) + 1:
            self._notes.append(f"a step is {events:,} events of the tracer; steps kept: {fit}")
            self._role, self._roles = STEP, [STEP] * (fit - 1)

    def _close(self) -> None:
        lines, self._lines = self._lines, None
        seen = lines.stop() if lines is not None else None
        self._stop()
        driver = self._driver
        name = f"trace-{os.getpid()}"
        left = self._within(lambda: self._tracer.save(driver.process.settings["folder"], name))
        notes = [*self._notes, *left.pop("notes", ())]
        driver.record.write("traced_steps", steps=self._steps, lines=seen, notes=notes, **left)
        driver.record.flush()

    def _end(self, reason: str) -> None:
        self._step_ended(self._role)
        if not self._steps:
            raise NotTraced(reason)
        self._notes.append(f"{reason}: {len(self._steps)} of the steps were traced")
        self._close()

    def _within(self, act: Callable[[], Any]) -> Any:
        """Do what hooks must let through."""
        process = self._driver.process
        process.off = True
        try:
            return act()
        finally:
            process.off = False

    def _attempt(self, act: Callable[[], None]) -> None:
        if self._broken:
            return
        try:
            act()
        except Exception as error:
            self._broken = True
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        lines, self._lines = self._lines, None
        if lines is not None:
            lines.stop()
        if self._running:
            try:
                self._stop()
            except Exception as second:
                self._driver.process.failed("stopping the tracer", second)
        # where the loop is over, its model may be gone
        _missing(self._driver, None if self._over else self._tracer, error)


def _missing(driver: DrivenLoop, tracer: Tracer | None, error: Exception) -> None:
    """Record why no step was traced, and take by itself what would have been in the trace."""
    reason = str(error) if isinstance(error, NotTraced) else f"{type(error).__name__}: {error}"
    driver.record.write("missing", what=WHAT, reason=reason[:500])
    if tracer is not None and driver.world is None:
        driver.process.off = True
        try:
            tracer.trace_passes_alone()
        except Exception as second:
            driver.process.failed("tracing passes of the model", second)
        finally:
            driver.process.off = False
    driver.record.flush()

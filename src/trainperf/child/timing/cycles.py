"""See what comes between two epochs, and between two calls of `fit` in a Python loop.

All else of the training is measured by then. The loop of the script has surely another
turn, so what runs here is not what stands after the training.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from threading import Lock, Timer
from typing import Any

from ..process import turns
from ..process.process import Attempt
from ..process.stacks import StackSampler
from .budget import Budget

INTERVAL_S = 0.02
"""How often stacks are looked at: nothing is timed meanwhile but whole calls."""
MOST = 8
AGAIN_S = 6.0
"""So many turns are seen where they take no longer than this together: the first one traces what
it calls, and of what is opened and closed by the dozen some stall the next."""
_GAPS = 3
_GAPS_S = 3.0
"""So many ends of an epoch are timed; two will do once so many seconds have passed."""
TOO_LONG = 10.0
"""A `fit` that is so many times longer than the wait hardly leaves anything to what follows."""


class Beside:
    """What is called, and what stands on the stacks, beside the steps: from now until it is taken.

    Stacks count only while `between` says that no step is under way.
    """

    def __init__(self, driver: Any, between: Callable[[], bool] = lambda: True) -> None:
        self._driver = driver
        driver.calls()  # those until here
        self._stacks = StackSampler(INTERVAL_S, over=lambda: not between())
        self._stacks.start()

    def take(self) -> dict[str, Any]:
        """Return it as the record has it."""
        counts = self._stacks.stop()
        return {"calls": self._driver.calls(), "stacks": counts, "total": self._stacks.samples}


class Cycles:
    """The turns of the loop around `fit`, of which one at least is seen whole or in part.

    A turn begins as `fit` returns (`_left_at`) and is `_turn`, as the record has it, once `fit` is
    called again; it is written as the first step of that begins, or ends where another model is to
    be traced in it (`_anew_at`). After `limit_s` what was seen until then is all: the process may
    be stopped.
    """

    def __init__(self, driver: Any, limit_s: float) -> None:
        self._driver = driver
        self._record = driver.record
        self._clock = driver.clock
        self._until = self._clock() + limit_s
        self._again_until = self._clock() + AGAIN_S
        self._lock = Lock()
        self._over = False
        self._left_at: float | None = None
        self._aside_s = 0.0  # since then, our own calls
        self._counter: int | None = None  # of the loop around `fit`, when it returned
        self._beside: Beside | None = None
        self._ended: dict[str, Any] = {}
        self._turn: dict[str, Any] | None = None
        self._fit_at: float | None = None
        self._anew_at: float | None = None
        self._seen = 0
        self._record.write("cycles", limit_s=limit_s)
        self._timer = Timer(limit_s, self._late)
        self._timer.daemon = True
        self._timer.start()

    def fit_ended(self, sure: bool) -> None:
        """`fit` has returned; `sure` says that the loop around it has another turn."""
        now = self._clock()
        fit_s = None if self._fit_at is None else now - self._fit_at
        self._ended = {"fit_s": fit_s, "tail_s": self._driver.leave(now)}
        if not sure:
            self._finish()
            return
        self._record.write("phase", p="outside", b=0)
        self._beside = Beside(self._driver)
        self._counter = turns.counter()
        self._aside_s = 0.0
        self._left_at = self._clock()

    def fit_begins(self) -> None:
        """`fit` is called again."""
        if self._left_at is None:
            return
        with self._lock:
            self._turn = self._taken()
            now, before = turns.counter(), self._counter
            made = 0 if now is None or before is None else now - before
            self._turn["turns"] = made if made > 0 else None
            self._left_at = None
        self._fit_at = self._clock()

    def between(self) -> bool:
        """Whether `fit` has returned, and is not called again yet."""
        return self._left_at is not None

    def lay_aside(self, seconds: float) -> None:
        """Leave seconds out of the time until it is called again."""
        self._aside_s += seconds

    def step(self, same: bool) -> bool:
        """A step of training begins; `same` says that it is one of the loop that was timed.

        Returns whether it is the first one of another model: `first_step` is to make it.
        """
        with self._lock:
            if self._turn is None or self._fit_at is None or self._over:
                return False
            now = self._clock()
            self._seen += 1
            self._turn["opening_s"] = now - self._fit_at
            if not same:  # what its model takes to trace shows once this step is over
                self._anew_at = now
                return True
            whole = self._turn["gap_s"] + self._turn["opening_s"] + expected(self._driver)
            self._write()
        if self._seen >= MOST or now + whole > min(self._again_until, self._until):
            self._finish()
        return False

    def first_step(self, call: Callable[[], Any]) -> Any:
        """Make the first step of another model, which traces it; nothing after it is awaited."""
        try:
            result = call()
        except BaseException:
            self._anew_at = None  # it has no end to be timed to
            raise
        finally:
            with self._lock:
                if not self._over:
                    self._write()
            self._finish()
        return result

    def _taken(self) -> dict[str, Any]:
        """What was seen since `fit` returned."""
        assert self._beside is not None
        assert self._left_at is not None
        gap = self._clock() - self._left_at - self._aside_s
        return {"gap_s": gap, "opening_s": None, **self._ended, **self._beside.take()}

    def _write(self, complete: bool = True) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            if self._anew_at is not None:
                turn["first_s"] = self._clock() - self._anew_at
            self._record.write("cycle", complete=complete, **turn)

    def _finish(self) -> None:
        with self._lock:
            self._over = True
        self._timer.cancel()
        self._driver.process.finish()

    def _late(self) -> None:
        """The time is over: what was seen until now is all."""
        with self._lock:
            if self._over:
                return
            self._over = True
            with Attempt(self._driver.process, "what follows fit"):
                if self._left_at is not None:
                    self._turn = self._taken()
                self._write(complete=False)
        self._record.write("done")
        self._record.flush()


def wanted(driver: Any) -> Cycles | None:
    """The cycles of a `fit` that surely is called again; None where there are none to see.

    Called within that `fit`. A loop around it that may be over now is recorded as not seen.
    """
    settings = driver.process.settings
    limit = settings.get("cycle_s")
    if driver.kind != "fit" or not limit or settings.get("leg") is not None:
        return None
    loop, sure = turns.loop_around(own=False)
    if loop is None:
        return None
    left = Budget.of(driver).end - driver.clock()
    reason = ""
    if left < 1.0:
        reason = "the budget was over"
    elif driver.world is not None:
        reason = "not looked at where several processes train together"
    elif not sure:
        reason = "it is not sure that the loop around `fit` has another turn"
    elif TOO_LONG * limit < expected(driver) < math.inf:
        reason = f"a whole `fit` takes more than {TOO_LONG * limit:.0f} s: it was not waited for"
    driver.record.write("repeats", where=loop, reason=reason)
    return None if reason else Cycles(driver, min(limit, left))


def expected(driver: Any) -> float:
    """Seconds that the steps of a `fit` take as it is written; infinite if that is not known."""
    try:
        facts = driver.describe()
        steps: Any = facts.get("steps_per_epoch") or facts.get("epoch_steps")
        many = int(facts.get("epochs") or 1) * steps / int(facts.get("steps_per_execution") or 1)
        return float(driver.plan.step_estimate() * many)
    except Exception:
        return math.inf


class EpochEnds:
    """The ends of epochs that a loop is brought to; `under_way` while they come after few steps.

    Keras is told up to three times that an epoch is over; what passes until its next one begins is
    timed, and what stands on the stacks meanwhile is kept.
    """

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._beside: Beside | None = None
        self._seen = False
        self._count = 0
        self._from = 0.0
        self.under_way = False

    @property
    def due(self) -> bool:
        return self.under_way and not self._seen

    def begin(self) -> None:
        driver = self._driver
        self.under_way = True
        self._from = driver.clock()
        driver.record.write("phase", p="between", b=0)
        driver.record.flush()
        self._beside = Beside(driver, driver.between)

    def gap(self) -> None:
        """The time between two epochs was taken; the first step of the next one follows."""
        self._seen = self.under_way

    def enough(self, at: float) -> bool:
        """Whether no more ends are needed; asked `at` the end of an epoch's first step."""
        if not self._seen:
            return False
        self._seen = False
        self._count += 1
        self.keep()  # the run may be stopped before the next one is over
        timed = self._count >= _GAPS or (self._count >= 2 and at - self._from > _GAPS_S)
        if timed or not self._driver.can_end():
            return True
        self._beside = Beside(self._driver, self._driver.between)
        return False

    def keep(self) -> None:
        """Record what was beside the steps since it was kept; a second call does nothing."""
        beside, self._beside = self._beside, None
        if beside is not None:
            self._driver.record.write("aside", **beside.take())

    def leave(self) -> None:
        """The loop was left: from here on its epochs are as long as they are written."""
        self.keep()
        self.under_way = self._seen = False

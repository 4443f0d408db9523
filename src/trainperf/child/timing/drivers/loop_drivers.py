"""Drivers of loops that make their own batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..loop import REAL, RESIDENT
from .driver import Driver

if TYPE_CHECKING:
    from ..loops import Loops


class OwnBatchesDriver(Driver):
    """A loop that makes its own batches: nothing begins it again when it is over."""

    def steps_left(self) -> int | None:
        return self.turns_left()


class CallDriver(OwnBatchesDriver):
    """A loop that makes its own batches and calls a compiled step with them."""

    kind = "call"

    def __init__(self, loops: Loops) -> None:
        super().__init__(loops, (REAL, RESIDENT))
        self.extras.append(("probes", lambda deadline: loops.probes(self, deadline)))
        self._anchor: Any = None
        self._last: Any = None
        self._keys: set[Any] = set()
        self._calls: list[Callable[[], Any]] = []
        self._period: list[Callable[[], Any]] = []

    def called(self, key: Any, again: Callable[[], Any], batch: Any) -> None:
        """The loop calls a step; a new period begins when the first of them comes round."""
        self.batch = batch
        if self._anchor is None:
            self._anchor = key
        self._keys.add(key)
        if key == self._anchor and (len(self._keys) == 1 or self._last != key):
            self._period, self._calls = self._calls, []
            self.updates_per_step = max(1, len(self._period))
            self.boundary()
        self._calls.append(again)
        self._last = key

    def boundary(self) -> None:
        """As in every loop, but a resident block is run here as one piece."""
        super().boundary()
        while self.resident:
            self._replay()
            super().boundary()

    def _replay(self) -> None:
        self.loops.depth += 1
        try:
            for call in self._period:
                began = self.clock()
                call()
                self.busy += self.clock() - began
        finally:
            self.loops.depth -= 1

    def prepare_resident(self) -> str:
        return "" if self._period else "no call of the step was seen to replay"


class UpdateDriver(OwnBatchesDriver):
    """A loop of which only the updates can be seen: eager, with batches of its own."""

    kind = "update"

    def __init__(self, loops: Loops) -> None:
        super().__init__(loops, (REAL,))
        self._anchor: Any = None
        self._last: Any = None
        self._others = self._count = 0
        self.updates_per_step = 1
        self.extras.append(("probes", lambda deadline: loops.probes(self, deadline)))

    def updated(self, key: Any) -> None:
        """Weights were updated; a step ends where the first updater comes round again."""
        if self._anchor is None:
            self._anchor = key
        if key == self._anchor and (self._last != key or not self._others):
            self.updates_per_step, self._count = max(1, self._count), 0
            self.boundary()
            self.loops.step_begins(self)
        self._count += 1
        self._others += key != self._anchor
        self._last = key

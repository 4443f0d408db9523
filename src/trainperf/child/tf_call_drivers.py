"""Drivers of loops that make their own batches: the step is a call, or only an update."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import tf_probes
from .driver import Exhausted
from .loop import REAL, RESIDENT
from .tf_drivers import TensorFlowDriver

if TYPE_CHECKING:
    from .tf_loops import TensorFlowLoops


class CallDriver(TensorFlowDriver):
    """A loop that makes its own batches and calls a compiled step with them."""

    kind = "call"

    def __init__(self, loops: TensorFlowLoops) -> None:
        super().__init__(loops, (REAL, RESIDENT))
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
        """Replay the calls of the last step."""
        return "" if self._period else "no call of the step was seen to replay"

    def pull(self, count: int) -> int:
        """There is no input to drain."""
        raise Exhausted


class UpdateDriver(TensorFlowDriver):
    """A loop of which only the updates can be seen: eager, with batches of its own."""

    kind = "update"

    def __init__(self, loops: TensorFlowLoops) -> None:
        super().__init__(loops, (REAL,))
        self._anchor: Any = None
        self._last: Any = None
        self.extras.append(("probes", lambda deadline: tf_probes.probe_eager_step(self, deadline)))

    def updated(self, key: Any) -> None:
        """Weights were updated; a step ends where the first updater comes round again."""
        if self._anchor is None:
            self._anchor = key
        if key == self._anchor:
            self.boundary()
            self.loops.wants_tape = self.plan.phase in ("warmup", "profile")
        self._last = key

    def prepare_resident(self) -> str:
        """Nothing can be replayed."""
        return "the loop makes its own batches and its step is not one function call"

    def pull(self, count: int) -> int:
        """There is no input to drain."""
        raise Exhausted

"""Drivers of loops that make their own batches, and the base of all that know a framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...process import frames, turns
from ..draining import Exhausted
from ..loop import REAL, RESIDENT
from .driver import Driver

if TYPE_CHECKING:
    from ..device.clock import DeviceClock
    from ..driven_loop import Exchange, Extra, Tracer
    from ..framework import Framework
    from ..loops import Loops


class LoopDriver(Driver):
    """Base of the drivers: the loops of the framework, and its batches."""

    def __init__(self, loops: Loops, phases: tuple[str, ...], **facts: Any) -> None:
        facts.setdefault("where", frames.here())
        self.loops: Any = loops  # with what only the framework's own drivers know
        self._framework: Framework = loops
        self.batches = loops.batches
        self.batch: Any = None
        super().__init__(loops.training, phases, framework=loops.name, **facts)
        self.extras.append(("facts", lambda deadline: loops.record_facts(self)))

    def _device(self) -> DeviceClock:
        return self._framework.device

    def describe(self) -> dict[str, Any]:
        """Size and kind of the batch, replicas, epochs, what feeds the loop."""
        return self._framework.facts(self)

    def tracer(self) -> Tracer | None:
        """The framework's own."""
        return self._framework.tracer(self)

    @property
    def probes_in_step(self) -> bool:
        """As the framework has it."""
        return self._framework.probes_in_step

    def probe_names(self) -> tuple[str, ...]:
        """The names of what the framework's probes record."""
        return self._framework.probe_names()

    def last_extras(self) -> list[Extra]:
        """The measurements that the framework's loops make of the device."""
        return self._framework.last_extras(self)

    def batch_bytes(self) -> int | None:
        """As the framework's batches tell."""
        return None if self.batch is None else self.batches.size_in_bytes(self.batch)

    def calls(self) -> list[dict[str, Any]]:
        """Those of a model's methods that do not train."""
        found: list[dict[str, Any]] = self.loops.calls.take()
        return found

    def framework_world(self) -> dict[str, Any] | None:
        """The world as the framework's loops know it."""
        return self._framework.world()

    def find_exchange(self) -> Exchange | None:
        """The exchange as the framework's loops know it."""
        return self._framework.exchange

    def exchange_extras(self) -> list[Extra]:
        """The measurements that the framework's loops make of it."""
        return self._framework.exchange_extras(self)

    def dataset(self) -> Any:
        """The dataset or loader the loop iterates, or None."""
        return None

    def turns_left(self) -> int | None:
        """How often the loops around the user's line turn yet, where their source tells."""
        try:
            return turns.left()
        except Exception as error:
            self.process.failed("how many steps the loop has left", error)
            return None

    def source(self) -> Any:
        """The dataset or loader the user made: that of a distributed one within it."""
        return self.batches.undistributed(self.dataset())

    def steps_per_call(self) -> int:
        """As the framework's loops know it."""
        return self._framework.steps_per_call(self)

    def resident_iterator(self) -> Any:
        """An iterator over the batches that are replayed, None where there is none."""
        return None

    def recent_batches(self) -> list[Any]:
        """The last few batches that were seen."""
        return [] if self.batch is None else [self.batch]


class OwnBatchesDriver(LoopDriver):
    """A loop that makes its own batches: nothing begins it again when it is over."""

    def steps_left(self) -> int | None:
        """What the loops around the step have left, where their source tells."""
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
        """Replay the calls of the last step."""
        return "" if self._period else "no call of the step was seen to replay"

    def pull(self, count: int) -> int:
        """There is no input to drain."""
        raise Exhausted


class UpdateDriver(OwnBatchesDriver):
    """A loop of which only the updates can be seen: eager, with batches of its own."""

    kind = "update"

    def __init__(self, loops: Loops) -> None:
        super().__init__(loops, (REAL,))
        self._anchor: Any = None
        self._last: Any = None
        self._others = 0
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

    _count = 0

    def prepare_resident(self) -> str:
        """Nothing can be replayed."""
        return "the loop makes its own batches and its step is not one function call"

    def pull(self, count: int) -> int:
        """There is no input to drain."""
        raise Exhausted

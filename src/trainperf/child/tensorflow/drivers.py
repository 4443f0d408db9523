"""The driver of steps that take their own batch: Keras's, and compiled functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..process.process import Unseen
from ..timing.drivers.loop_drivers import RING, RING_BYTES, InputDriver
from ..timing.phases import Exhausted
from . import batches as tf_batches
from . import probes, stages

if TYPE_CHECKING:
    from ..timing.loops import Loops


class ArgumentDriver(InputDriver):
    """A step that is given its iterator: Keras `fit`, or a `tf.function` that calls `next`."""

    def __init__(
        self,
        loops: Loops,
        owner: Any,
        iterator: Any,
        kind: str = "iterator",
        epochs: Any = None,
        model: Any = None,
    ) -> None:
        self.kind = "fit" if kind == "fit" else "argument"
        self.epochs = epochs  # what hands out the iterators, and can begin an epoch anew
        self.model = model
        super().__init__(loops, iterator)
        self._owner = owner
        self.given = iterator
        self.source_over = False  # Keras closed the epoch of the source meanwhile
        self.unclosed: list[Any] = []  # tf.data may take seconds to close what was broken off
        self.replayed: Any = None  # an iterator over the batches that are replayed
        self._pull = tf_batches.graph_pull(self.process)
        from tensorflow.python.framework.errors_impl import OutOfRangeError

        self._ends = (StopIteration, OutOfRangeError)
        if model is not None:
            self.extras.append(("probes", lambda end: probes.record(self, model, end)))

    def serves(self, owner: Any) -> bool:
        return owner is self._owner

    def call(self, iterator: Any, invoke: Callable[[Any], Any]) -> Any:
        """Run one step of the loop with the iterator of the phase."""
        if iterator is not self.given:
            if self.ending:
                self.unclosed += [self.given, self._source]
            self.given = iterator
            self._take_from(iterator)
        self.boundary()
        resident = self.resident
        if self.source_over and not resident:
            self.reopen()
        if not resident:
            self._begins_step_with(self._per_call)
        began = self.clock()
        if resident:
            result = invoke(self.replayed)
        else:
            result = self._from_source(invoke, began, *self._ends)
            self.took(self._per_call)
        self.busy += self.clock() - began
        return result

    @cached_property
    def _per_call(self) -> int:
        """How many batches a call takes: the same for a whole `fit`."""
        return int(self.loops.steps_per_call(self))

    def _open_again(self) -> Any:
        return super()._open_again() if self.epochs is None else self.epochs.again()

    def epoch_reopened(self) -> None:
        self.source_over = False
        super().epoch_reopened()

    def _time_stages(self, deadline: float) -> None:
        if self.epochs is not None and self.epochs.close():
            self.source_over = True
        try:
            stages.record(self, deadline)
        finally:
            if self.source_over:
                self.epochs.close()

    def pull(self, count: int) -> int:
        """Take batches inside a graph, as the step does."""
        if self.source_over and not self.reopen():
            raise Exhausted
        got = self._pull(self._source, count)
        self.took(got)
        if got < count:
            began = self.clock()
            if not self.reopen() or not self._pull(self._source, 1):
                raise Exhausted
            self.took(1)
            self.restarts += self.clock() - began
        return got

    def prepare_resident(self) -> str:
        """Take a few batches from the input and make an iterator that repeats them."""
        if self.replayed is not None:
            return ""
        with Unseen(self.process):
            batches = tf_batches.take(self._source, RING, RING_BYTES)
            if not batches and self.reopen():
                batches = tf_batches.take(self._source, RING, RING_BYTES)
            if not batches:
                return "the input had no batch left to replay"
            self.took(len(batches))
            self.batch = batches[-1]
            self._ring = batches
            self.replayed = tf_batches.repeating(self._source, batches)
        return ""

    def epoch_went_on(self, iterator: Any) -> None:
        """The loop's epoch was over and another was begun in its place."""
        self._end_step(self.device.mark())
        self._take_from(iterator)  # which Keras is handed as well
        self.epoch_reopened()

    def can_end(self) -> bool:
        """Only Keras's own loop can be told that the epoch is over."""
        return self.epochs is not None

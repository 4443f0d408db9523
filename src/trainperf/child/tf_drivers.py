"""Drivers of TensorFlow loops, by how a loop takes its batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import frames, tf_batches, tf_facts, tf_probes, tf_stages
from .driver import Driver, Exhausted
from .loop import INPUT, REAL, RESIDENT

if TYPE_CHECKING:
    from .tf_loops import TensorFlowLoops

RING = 4
RING_BYTES = 256 * 1024**2
"""Replay up to so many batches, as long as they are no larger than this together."""


class TensorFlowDriver(Driver):
    """What the drivers of TensorFlow loops have in common."""

    def __init__(self, loops: TensorFlowLoops, phases: tuple[str, ...], **facts: Any) -> None:
        super().__init__(loops.observer, phases, where=frames.here(), **facts)
        self.loops = loops
        self.steps_per_call = 1
        self.batch: Any = None
        self.extras.append(("facts", lambda deadline: tf_facts.record(self)))

    def sync(self) -> None:
        """Wait for queued kernels; on the CPU device there are none."""
        tf_batches.sync_devices()

    def describe(self) -> dict[str, Any]:
        """Size and kind of the batch, replicas, the step function."""
        return tf_facts.loop_facts(self)

    def dataset(self) -> Any:
        """The dataset the loop iterates, or None."""
        return None

    def recent_batches(self) -> list[Any]:
        """The last few batches that were seen."""
        return [] if self.batch is None else [self.batch]


class IteratorDriver(TensorFlowDriver):
    """A loop written by the user over a dataset: `for batch in dataset`."""

    kind = "iterator"

    def __init__(self, loops: TensorFlowLoops, iterator: Any) -> None:
        super().__init__(loops, (REAL, RESIDENT, INPUT))
        self._iterator = iterator  # the one the user's loop holds
        self._source = iterator  # the one batches come from
        self._dataset = tf_batches.dataset_of(iterator)
        self._original: Callable[[Any], Any] | None = None
        self._ring: deque[Any] = deque(maxlen=RING)
        self._replayed = 0
        self._seen = -1
        self._taken = 0
        self.batches_per_step = 1
        self._companions: dict[int, Any] = {}
        self.extras.insert(0, ("stages", lambda deadline: tf_stages.record(self, deadline)))
        self.extras.append(("probes", lambda deadline: tf_probes.probe_eager_step(self, deadline)))

    def owns(self, iterator: Any) -> bool:
        """Whether an iterator is the loop's: the same one, or over the same dataset."""
        if iterator is self._iterator:
            return True
        dataset = tf_batches.dataset_of(iterator)
        if dataset is None or not tf_batches.same_dataset(dataset, self._dataset):
            return False
        if self._at is not None:  # the last one was left before its end
            self.epoch_ended(self.clock(), complete=False)
        self._iterator = self._source = iterator
        self._dataset = dataset
        return True

    def companion(self, iterator: Any) -> bool:
        """Whether an iterator is taken from once in each step beside the loop's own."""
        if id(iterator) in self._companions:
            return True
        last = getattr(iterator, "_trainperf_last", None)
        if last is None or self.plan.phase != "warmup":
            return False
        self._companions[id(iterator)] = iterator
        return True

    def next_companion(self, iterator: Any, original: Callable[[Any], Any]) -> Any:
        """The next batch of a companion: replayed where the loop's own is."""
        if self.resident:
            return tf_batches.fresh(iterator._trainperf_last)
        batch = original(iterator)
        iterator._trainperf_last = batch
        return batch

    def next(self, iterator: Any, original: Callable[[Any], Any]) -> Any:
        """The next batch for the user's loop."""
        self._original = original
        if self.loops.updates > self._seen or self._at is None:
            if self._taken:
                self.batches_per_step = self._taken
            self._taken = 0
            self.boundary()
            self._seen = self.loops.updates
            self.loops.wants_tape = self.plan.phase in ("warmup", "profile")
            if self.end_epoch():
                raise StopIteration
        self._taken += 1
        if self.resident and self._ring:
            self._replayed += 1
            return tf_batches.fresh(self._ring[self._replayed % len(self._ring)])
        began = self.clock()
        try:
            batch = original(self._source)
        except StopIteration:
            if not self.wants_more or not self._reopen():
                self.epoch_ended(began, complete=False)
                raise
            batch = original(self._source)
        if not self.resident:
            self._remember(batch)
        return batch

    def pull(self, count: int) -> int:
        """Take batches the way the user's loop does: eagerly, one by one."""
        assert self._original is not None
        for _ in range(count):
            try:
                self._original(self._source)
            except StopIteration:
                began = self.clock()
                if not self._reopen():
                    raise Exhausted from None
                self._original(self._source)
                self.restarts += self.clock() - began
            for iterator in list(self._companions.values()):
                try:
                    self._original(iterator)
                except StopIteration:
                    self._companions.pop(id(iterator), None)
        return count

    def prepare_resident(self) -> str:
        """Replay the last batches that the loop got."""
        return "" if self._ring else "no batch was seen to replay"

    def dataset(self) -> Any:
        """The dataset the loop iterates."""
        return self._dataset

    def can_end(self) -> bool:
        """Only where another epoch surely follows: what stands after training must not run."""
        sure = frames.another_turn()
        if not sure:
            self.record.write(
                "missing",
                what="between epochs",
                reason="it is not sure that another epoch follows in this loop",
            )
        return sure

    def recent_batches(self) -> list[Any]:
        """The batches of the ring."""
        return list(self._ring)

    def _remember(self, batch: Any) -> None:
        if self.batch is None:
            size = max(1, tf_batches.size_in_bytes(batch))
            self._ring = deque(maxlen=max(1, min(RING, RING_BYTES // size)))
        self.batch = batch
        self._ring.append(batch)

    def _reopen(self) -> bool:
        if self._dataset is None:
            return False
        self.observer.off = True
        try:
            self._source = iter(self._dataset)
        finally:
            self.observer.off = False
        self.epochs_ended += 1
        self.record.write("epoch", s=self.clock(), reopened=True)
        self.reopened()
        return True


class ArgumentDriver(TensorFlowDriver):
    """A step that is given its iterator: Keras `fit`, or a `tf.function` that calls `next`."""

    def __init__(
        self,
        loops: TensorFlowLoops,
        owner: Any,
        iterator: Any,
        kind: str = "iterator",
        epochs: Any = None,
        model: Any = None,
    ) -> None:
        self.kind = "fit" if kind == "fit" else "argument"
        self.epochs = epochs  # what hands out the iterators, and can begin an epoch anew
        self.model = model
        super().__init__(loops, (REAL, RESIDENT, INPUT))
        self._owner = owner
        self.given = iterator
        self.source_over = False  # Keras closed the epoch of the source meanwhile
        self._source = iterator
        self._dataset = tf_batches.dataset_of(iterator)
        self._resident: Any = None
        self._batches: list[Any] = []
        self._invoke: Callable[[Any], Any] | None = None
        self._pull = tf_batches.graph_pull(self.observer)
        self.extras.insert(0, ("stages", self._time_stages))
        if model is not None:
            self.extras.append(("probes", lambda end: tf_probes.record(self, model, end)))

    def serves(self, owner: Any) -> bool:
        """Whether this driver times the loop of `owner`."""
        return owner is self._owner

    def call(self, iterator: Any, invoke: Callable[[Any], Any]) -> Any:
        """Run one step of the loop with the iterator of the phase."""
        self._invoke = invoke
        if iterator is not self.given:
            self.given = self._source = iterator
        self.boundary()
        if self.source_over and not self.resident:
            self.reopen()
        source = self._resident if self.resident else self._source
        began = self.clock()
        try:
            result = invoke(source)
        except Exception as error:
            if not _is_end(error):
                raise
            if not self.wants_more or not self.reopen():
                self.epoch_ended(began, complete=False)
                raise
            result = invoke(self._source)
        self.busy += self.clock() - began
        return result

    def reopen(self) -> bool:
        """Begin the next epoch of the input without the loop noticing."""
        self.observer.off = True
        try:
            if self.epochs is not None:
                source = self.epochs.again()
            else:
                source = iter(self._dataset) if self._dataset is not None else None
        finally:
            self.observer.off = False
        if source is None:
            return False
        self._source = source
        self.source_over = False
        self.epochs_ended += 1
        self.record.write("epoch", s=self.clock(), reopened=True)
        self.reopened()
        return True

    def _time_stages(self, deadline: float) -> None:
        if self.epochs is not None and self.epochs.close():
            self.source_over = True
        try:
            tf_stages.record(self, deadline)
        finally:
            if self.source_over:
                self.epochs.close()

    def pull(self, count: int) -> int:
        """Take batches inside a graph, as the step does."""
        if self.source_over and not self.reopen():
            raise Exhausted
        got = self._pull(self._source, count)
        if got < count:
            began = self.clock()
            if not self.reopen() or not self._pull(self._source, 1):
                raise Exhausted
            self.restarts += self.clock() - began
        return got

    def prepare_resident(self) -> str:
        """Take a few batches from the input and make an iterator that repeats them."""
        if self._resident is not None:
            return ""
        self.observer.off = True
        try:
            batches = tf_batches.take(self._source, RING, RING_BYTES, seconds=1.5)
            if not batches and self.reopen():
                self.observer.off = True
                batches = tf_batches.take(self._source, RING, RING_BYTES, seconds=1.5)
            if not batches:
                return "the input had no batch left to replay"
            self.batch = batches[-1]
            self._batches = batches
            self._resident = tf_batches.repeating(self._source, batches)
        finally:
            self.observer.off = False
        return ""

    def epoch_went_on(self, iterator: Any) -> None:
        """The loop's epoch was over and another was begun in its place."""
        if self._at is not None:
            self._step_ended(self._at, self.clock())
            self._at = None
        self._source = iterator  # Keras 3 also hands it to the loop; tf_keras does not
        self.source_over = False
        self.epochs_ended += 1
        self.record.write("epoch", s=self.clock(), reopened=True)
        self.reopened()

    def recent_batches(self) -> list[Any]:
        """The batches that are repeated."""
        return self._batches

    def resident_iterator(self) -> Any:
        """The iterator that repeats a few batches, or None."""
        return self._resident

    def can_end(self) -> bool:
        """Only Keras's own loop can be told that the epoch is over."""
        return self.epochs is not None

    def dataset(self) -> Any:
        """The dataset the loop iterates."""
        return self._dataset


def _is_end(error: Exception) -> bool:
    if isinstance(error, StopIteration):
        return True
    from tensorflow.python.framework.errors_impl import OutOfRangeError

    return isinstance(error, OutOfRangeError)

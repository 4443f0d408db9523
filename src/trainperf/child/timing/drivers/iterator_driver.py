"""The driver of a loop over an iterator, whatever the framework: `for batch in dataset`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...process import turns
from ..draining import Exhausted
from ..loop import INPUT, REAL, RESIDENT
from .driver import Driver

if TYPE_CHECKING:
    from ..loops import Loops

RING = 4
RING_BYTES = 256 * 1024**2
"""Replay up to so many batches, as long as they are no larger than this together."""


SEEN_LATE = 2
"""A loop is seen to train after its first step, and may have taken so many batches before."""


class IteratorDriver(Driver):
    """A loop written by the user over a dataset: `for batch in dataset`."""

    kind = "iterator"

    def __init__(self, loops: Loops, iterator: Any) -> None:
        super().__init__(loops, (REAL, RESIDENT, INPUT))
        self._iterator = iterator  # the one the user's loop holds
        self._source = iterator  # the one batches come from
        self._dataset = self.batches.dataset_of(iterator)
        self._opened(self._dataset)
        self._original: Callable[[Any], Any] | None = None
        self._ring: deque[Any] = deque(maxlen=RING)
        self._replayed = 0
        self._seen = -1
        self._taken = 0
        self._of_this = 0
        self.batches_per_step = 1
        self._companions: dict[int, Any] = {}
        seen = getattr(iterator, "_trainperf_updates", loops.updates)
        self._step_updates = max(1, loops.updates - seen)
        self.extras.insert(0, ("stages", self._time_stages))
        self.extras.append(("probes", lambda deadline: loops.probes(self, deadline)))

    def steps_left(self) -> int | None:
        """What a loop has left that counts its steps and asks for each batch by `next`.

        One over the dataset itself goes on for as long as batches are given.
        """
        return self.turns_left() if turns.asked_directly() else None

    def owns(self, iterator: Any) -> bool:
        """Whether an iterator is the loop's: the same one, or over the same dataset."""
        if iterator is self._iterator:
            return True
        dataset = self.batches.dataset_of(iterator)
        if not self._feeds(dataset):
            return False
        if self._at is not None and not self._opened_for_each():
            self.epoch_ended(self.clock(), complete=False)  # the last was left before its end
        self._of_this = 0
        began = self.clock()
        self._iterator = self._source = iterator  # the last reference to the one before
        if self._framework.closes_late:
            self.lay_aside_of_gap(self.clock() - began)
        self._dataset = dataset
        self._opened(dataset)
        return True

    def _feeds(self, dataset: Any) -> bool:
        """Whether an iterator over this dataset feeds the loop."""
        return dataset is not None and self.batches.same_dataset(dataset, self._dataset)

    def _time_stages(self, deadline: float) -> None:
        self.loops.stages(self, deadline)

    def _opened_for_each(self) -> bool:
        """Whether the last iterator was asked for one batch, and updates followed."""
        return self._of_this == 1 and bool(self.loops.updates > self._seen)

    def companion(self, iterator: Any) -> bool:
        """Whether an iterator is taken from once in each step beside the loop's own."""
        if id(iterator) in self._companions:
            return True
        last = getattr(iterator, "_trainperf_last", None)
        if last is None or self.plan.phase != "warmup":
            return False
        if not 0 < self.loops.updates - iterator._trainperf_updates <= self._step_updates:
            return False  # it was not asked in the last step
        self._companions[id(iterator)] = iterator
        return True

    def next_companion(self, iterator: Any, original: Callable[[Any], Any]) -> Any:
        """The next batch of a companion: replayed where the loop's own is."""
        if self.resident:
            return self.batches.fresh(iterator._trainperf_last)
        batch = original(iterator)
        iterator._trainperf_last = self.batches.fresh(batch)
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
            self.loops.step_begins(self)
            if self.end_epoch():
                raise StopIteration
            if not self.resident:
                self._begins_step_with(self.batches_per_step, SEEN_LATE)
        self._taken += 1
        self._of_this += 1
        resident = self.resident
        if resident and self._ring:
            self._replayed += 1
            return self.replay(self._ring[self._replayed % len(self._ring)])
        began = self.clock()
        try:
            batch = original(self._source)
        except StopIteration:
            if not self.wants_more or not self._reopen():
                self.ran_out(began)
                raise
            batch = original(self._source)
        self.took(1)
        if not resident:
            self._remember(batch)
        self.waited(self.clock() - began)
        return batch

    def waited(self, seconds: float) -> None:
        """The loop waited so long for its batch."""

    def replay(self, batch: Any) -> Any:
        """A batch of the ring, as it is handed to the loop again."""
        return self.batches.fresh(batch)

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
                try:
                    self._original(self._source)
                except StopIteration:
                    raise Exhausted from None
                self.restarts += self.clock() - began
            self.took(1)
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
        sure = turns.another_turn()
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
            size = max(1, self.batches.size_in_bytes(batch))
            self._ring = deque(maxlen=max(1, min(RING, RING_BYTES // size)))
        self.batch = self.batches.fresh(batch)
        self._ring.append(self.batch)

    def _open_again(self) -> Any:
        """A new iterator over the input, None where it gives its batches a single time."""
        return None if self._dataset is None else iter(self._dataset)

    def _reopen(self) -> bool:
        self.opens_again()
        self.process.off = True
        try:
            source = self._open_again()
        finally:
            self.process.off = False
        if source is None:
            return False
        self._source = source
        self._opened(self._dataset)
        self.epoch_reopened()
        return True

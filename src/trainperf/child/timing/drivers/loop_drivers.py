"""Drivers of loops over an iterator (`for batch in dataset`), and of those that make batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ...process import frames, turns
from ...process.process import Attempt, Unseen
from ..device import Mark
from ..loop import INPUT, REAL, RESIDENT, WARM_UP
from ..phases import Exhausted
from .driver import Driver, Span

if TYPE_CHECKING:
    from ..loops import Loops

RING = 4
RING_BYTES = 256 * 1024**2
"""Replay up to so many batches, as long as they are no larger than this together."""
SEEN_LATE = 2
"""A loop is seen to train after its first step, and may have taken so many batches before."""
SHORTEST_PASS = 20
"""Passes over what is repeated that have fewer batches are a part of what steps cost."""


class InputDriver(Driver):
    """A loop that takes its batches from an iterator over a dataset; it can be opened again."""

    phases = (REAL, RESIDENT, INPUT)

    def __init__(self, loops: Loops, iterator: Any) -> None:
        super().__init__(loops)
        self._dataset = self.batches.dataset_of(iterator)
        self._of_epoch = self._of_source = 0  # batches of the epoch, and of the iterator
        self._pass: float | None = None  # batches of one pass over what the input repeats
        self._passes_of: Any = None
        self._source: Any = None  # the iterator that batches come from
        self._take_from(iterator)
        self.extras.insert(0, ("stages", self._time_stages))

    def dataset(self) -> Any:
        return self._dataset

    def _time_stages(self, deadline: float) -> None:
        self.loops.stages(self, deadline)

    # ------------------------------------------------------------- its batches

    def _take_from(self, iterator: Any) -> None:
        """Batches come from this iterator from now on, over the same dataset or another."""
        if iterator is self._source:  # Keras keeps that of a dataset that is repeated
            return
        self._source = iterator
        self._of_source = 0
        if self._dataset is self._passes_of:
            return
        self._passes_of, self._pass = self._dataset, None
        with Attempt(self.process, "the passes of a dataset that is repeated"):
            self._pass = self.loops.batches_of_pass(self._dataset)

    def _from_source(self, take: Callable[[Any], Any], began: float, *ends: type[Exception]) -> Any:
        """What `take` gives of the input, which is opened again where it `ends` too early."""
        try:
            return take(self._source)
        except ends:
            if not self.wants_more or not self.reopen():
                self.ran_out(began)
                raise
        return take(self._source)

    def took(self, batches: int) -> None:
        """So many batches came from the input."""
        self._of_epoch += batches
        self._of_source += batches

    def _begins_step_with(self, batches: int, late: int = 0) -> None:
        """A step begins that takes so many batches; up to so many were `late`, unseen before.

        Where the input begins another pass over what it repeats, a shuffle fills its buffer: the
        step is the first one of an epoch, whatever the loop calls one.
        """
        if self._pass is None or self._pass < SHORTEST_PASS or self.plan.whole_epochs:
            return
        if self._of_source and -self._of_source % self._pass < batches + late:
            self._first = True

    # -------------------------------------------------------------- its epochs

    def _iterate(self, dataset: Any) -> Any:
        return iter(dataset)

    def _open_again(self) -> Any:
        """A new iterator over the input, None where it gives its batches a single time."""
        return None if self._dataset is None else self._iterate(self._dataset)

    def reopen(self) -> bool:
        """Begin the next epoch of the input without the loop noticing."""
        if self._span is not None and self.in_step and not self.device.marks:
            self._span.since = self._mark(alone=True)
        with Unseen(self.process):
            source = self._open_again()
        if source is None:
            return False
        self._take_from(source)
        self.epoch_reopened()
        return True

    def epoch_reopened(self) -> None:
        """The input was opened again by us, so that the loop goes on where it would have ended.

        The next step pays for its first batch. It is one like the others where slices hold whole
        epochs: that is what they are to time.
        """
        self._ran_dry()
        self.epochs_ended += 1
        self._times.epoch(self.device.mark())
        if self.plan.phase == INPUT:
            self._times.read()  # the devices are idle, and what was drained is told next
        if self.plan.whole_epochs:
            return
        self._first = True
        opened = self._mark(alone=True)
        if not self.in_step:
            self._span = Span("opening", opened)

    def ran_out(self, at: float, complete: bool = False) -> None:
        """The input ran out at `at`, and cannot be opened again."""
        self._ran_dry()
        self.epoch_ended(at, complete)
        if self.tracing is not None:
            self.tracing.end("the input ran out")
            self._between_epochs()

    def _ran_dry(self) -> None:
        """The input has no more: what was taken since it was opened is an epoch of it."""
        if self._of_epoch:
            self.epoch_batches = max(self.epoch_batches or 0, self._of_epoch)
        self._of_epoch = 0

    def epoch_ended(self, at: float, complete: bool = True) -> None:
        """The loop's epoch ended at `at`; `complete` says that a step ended there."""
        self.epochs_ended += 1
        if self.plan.as_written:  # what follows, up to the next step, is part of this one
            return
        now = self._mark(alone=True) if self.device.asynchronous else Mark(at)
        self._of_epoch = 0
        if complete:
            self._end_step(now)
        self._span = Span("gap", now)
        self._times.epoch(now)

    def _end_step(self, now: Mark) -> None:
        """End the step under way, if one is: the loop asks for no other yet."""
        if self._span is not None and self.in_step:
            self._step_ended(self._span.since, now)
            self._span = None

    def end_epoch(self) -> bool:
        """Whether the loop is to end its epoch now, so that what follows can be timed."""
        if self.between() or not self._epoch_ends.due:
            return False
        self.epoch_ended(self.clock())
        return True


class IteratorDriver(InputDriver):
    """A loop written by the user over a dataset: `for batch in dataset`."""

    kind = "iterator"

    def __init__(self, loops: Loops, iterator: Any) -> None:
        super().__init__(loops, iterator)
        self._iterator = iterator  # the one the user's loop holds; we may have opened the source
        self._original: Callable[[Any], Any] | None = None
        self._ring = deque(maxlen=RING)
        self._replayed = 0
        self._seen = -1  # updates, as the loop asked for this step
        self._taken = 0  # batches of this step
        self._of_this = 0  # batches of the iterator
        self.opens_each = False  # the loop opens its input anew for each batch
        self._told_opens = False
        self.batches_per_step = 1
        self._companions: list[Any] = []  # the last iterator over each dataset beside the loop's
        seen = getattr(iterator, "_trainperf_updates", loops.updates)
        self._step_updates = max(1, loops.updates - seen)
        self.extras.append(("probes", lambda deadline: loops.probes(self, deadline)))

    def steps_left(self) -> int | None:
        """What a loop has left that counts its steps and asks for each batch by `next`.

        One over the dataset itself goes on for as long as batches are given.
        """
        return turns.left() if turns.asked_directly() else None

    def owns(self, iterator: Any) -> bool:
        """Whether an iterator is the loop's: the same one, or over the same dataset."""
        if iterator is self._iterator:
            return True
        dataset = self.batches.dataset_of(iterator)
        if not self._feeds(dataset):
            return False
        self.opens_each = self._of_this == 1 and self.loops.updates > self._seen
        if self.in_step and not self.opens_each:
            self.epoch_ended(self.clock(), complete=False)  # the last was left before its end
        self._of_this = 0
        began = self.clock()
        self._iterator, self._dataset = iterator, dataset
        self._take_from(iterator)  # the last reference to the one before goes
        if self.loops.closes_late:
            self.lay_aside_of_gap(self.clock() - began)
        return True

    def held(self, dataset: Any) -> Any:
        """The loop's own iterator where it opens its input anew while batches are replayed.

        What it opens for each batch is its input: a step whose batch is there does without.
        """
        if not (self.resident and self.opens_each and self._feeds(dataset)):
            return None
        self._of_this = 0  # as of a new one
        return self._iterator

    def _feeds(self, dataset: Any) -> bool:
        """Whether an iterator over this dataset feeds the loop."""
        return dataset is not None and self.batches.same_dataset(dataset, self._dataset)

    def companion(self, iterator: Any) -> bool:
        dataset = self.batches.dataset_of(iterator)
        for at, known in enumerate(self._companions):
            same = dataset is not None and self.batches.dataset_of(known) is dataset
            if known is iterator or same:  # each epoch may have a new one
                iterator._trainperf_last = known._trainperf_last
                self._companions[at] = iterator
                return True
        last = getattr(iterator, "_trainperf_last", None)
        if last is None or self.plan.phase != WARM_UP:
            return False
        if not 0 < self.loops.updates - iterator._trainperf_updates <= self._step_updates:
            return False  # it was not asked in the last step
        self._companions.append(iterator)
        return True

    def companions(self) -> list[Any]:
        """The datasets from which each step takes a batch beside the loop's own."""
        return [self.batches.dataset_of(iterator) for iterator in self._companions]

    def next_companion(self, iterator: Any, original: Callable[[Any], Any]) -> Any:
        """The next batch of a companion: replayed where the loop's own is.

        One that is asked more often than that is really asked: an evaluation over it would have no
        end.
        """
        again = getattr(iterator, "_trainperf_asked", None) == self._replayed
        iterator._trainperf_asked = self._replayed
        if self.resident and not again:
            return self.batches.fresh(iterator._trainperf_last)
        batch = original(iterator)
        if not self.resident:
            iterator._trainperf_last = self.batches.fresh(batch)
        return batch

    def next(self, iterator: Any, original: Callable[[Any], Any]) -> Any:
        """The next batch for the user's loop."""
        self._original = original
        if self.loops.updates > self._seen or not self.in_step:
            self._next_step()
        self._taken += 1
        self._of_this += 1
        resident = self.resident
        if resident and self._ring:
            self._replayed += 1
            return self.replay(self._ring[self._replayed % len(self._ring)])
        began = self.clock()
        batch = self._from_source(original, began, StopIteration)
        self.took(1)
        if not resident:
            self._remember(batch)
        self.waited(self.clock() - began)
        return batch

    def _next_step(self) -> None:
        self.batches_per_step = self._taken or self.batches_per_step
        self._taken = 0
        self.boundary()
        self._seen = self.loops.updates
        self.loops.step_begins(self)
        if self.end_epoch():
            raise StopIteration
        if not self.resident:
            self._begins_step_with(self.batches_per_step, SEEN_LATE)
        if self.opens_each and not self._told_opens:
            self._told_opens = True
            self.record.write("opens_each", where=frames.here())

    def waited(self, seconds: float) -> None:
        """The loop waited so long for its batch."""

    def replay(self, batch: Any) -> Any:
        """A batch of the ring, as it is handed to the loop again."""
        return self.batches.fresh(batch)

    def pull(self, count: int) -> int:
        """Take batches the way the user's loop does: eagerly, one by one."""
        assert self._original is not None
        for _ in range(count):
            if self.opens_each:
                with Unseen(self.process):
                    self._source = self._open_again() or self._source
            try:
                self._original(self._source)
            except StopIteration:
                began = self.clock()
                if not self.reopen():
                    raise Exhausted from None
                try:
                    self._original(self._source)
                except StopIteration:
                    raise Exhausted from None
                self.restarts += self.clock() - began
            self.took(1)
            for iterator in list(self._companions):
                try:
                    self._original(iterator)
                except StopIteration:
                    self._reopen_companion(iterator, self._original)
        return count

    def _reopen_companion(self, iterator: Any, original: Callable[[Any], Any]) -> None:
        """Go on with another iterator over its dataset; without it, where it has no more."""
        began, dataset = self.clock(), self.batches.dataset_of(iterator)
        self._companions.remove(iterator)
        if dataset is None:
            return
        with Unseen(self.process):
            again = self._iterate(dataset)
        with suppress(StopIteration):  # it gives its batches a single time
            original(again)
            again._trainperf_last = iterator._trainperf_last
            self._companions.append(again)
            self.restarts += self.clock() - began

    def prepare_resident(self) -> str:
        return "" if self._ring else "no batch was seen to replay"

    def can_end(self) -> bool:
        """Only where another epoch surely follows: what stands after training must not run."""
        _, sure = turns.loop_around()
        if not sure:
            reason = "it is not sure that another epoch follows in this loop"
            self.record.write("missing", what="between epochs", reason=reason)
        return sure

    def _remember(self, batch: Any) -> None:
        if self.batch is None:
            size = max(1, self.batches.size_in_bytes(batch))
            self._ring = deque(maxlen=max(1, min(RING, RING_BYTES // size)))
        self.batch = self.batches.fresh(batch)
        self._ring.append(self.batch)


# Drivers of loops that make their own batches: nothing begins them again when they are over.


class OwnBatchesDriver(Driver):
    """A loop whose steps are told by what it calls: one ends where the first call comes round."""

    phases: tuple[str, ...] = (REAL,)

    def __init__(self, loops: Loops) -> None:
        super().__init__(loops)
        self._anchor: Any = None
        self._last: Any = None
        self._others = self._count = 0
        self.updates_per_step = 1
        self.extras.append(("probes", lambda deadline: loops.probes(self, deadline)))

    def steps_left(self) -> int | None:
        return turns.left()

    def _begins_step(self, key: Any) -> bool:
        """Count what is named by `key`; a step ends where the first of its kind comes round."""
        if self._anchor is None:
            self._anchor = key
        begins: bool = key == self._anchor and (self._last != key or not self._others)
        if begins:
            self.updates_per_step, self._count = max(1, self._count), 0
        self._count += 1
        self._others += key != self._anchor
        self._last = key
        return begins


class CallDriver(OwnBatchesDriver):
    """A loop that makes its own batches and calls a compiled step with them."""

    kind = "call"
    phases = (REAL, RESIDENT)

    def __init__(self, loops: Loops) -> None:
        super().__init__(loops)
        self._calls: list[Callable[[], Any]] = []
        self._period: list[Callable[[], Any]] = []

    def called(self, key: Any, again: Callable[[], Any], batch: Any) -> None:
        """The loop calls a step."""
        self.batch = batch
        if self._begins_step(key):
            self._period, self._calls = self._calls, []
            self.boundary()
            while self.resident:  # such a block is run here as one piece
                self._replay()
                self.boundary()
        self._calls.append(again)

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

    def updated(self, key: Any) -> None:
        """Weights were updated."""
        if self._begins_step(key):
            self.boundary()
            self.loops.step_begins(self)

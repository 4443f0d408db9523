"""The epochs of Keras 3's `fit`: kept from ending while more is to be measured."""

from __future__ import annotations

from typing import Any

from ..tensorflow.loops import TensorFlowLoops


class Epochs:
    """Keeps Keras's loop going past the end of an epoch, and ends it when told."""

    def __init__(self, loops: TensorFlowLoops) -> None:
        self._loops = loops
        self._current: Any = None
        self._latest: Any = None
        self._means_begin = False

    def next(self, epoch: Any, original: Any) -> Any:
        """The next `(first step, last step, iterator)` of Keras's loop."""
        driver: Any = self._loops.training.driver
        training = epoch is self._current and getattr(driver, "epochs", None) is self
        if training and driver.end_epoch():
            epoch._current_iterator = None
            epoch._steps_seen = 0
            epoch.data_adapter.on_epoch_end()
            raise StopIteration
        try:
            item = original(epoch)
        except StopIteration:
            if training and driver.resident and driver.wants_more:
                driver.source_over = True
                return 0, epoch.steps_per_execution - 1, driver.given
            if training and driver.wants_more and (iterator := self._next_epoch()) is not None:
                driver.epoch_went_on(iterator)
                return 0, epoch.steps_per_execution - 1, iterator
            if training:
                driver.ran_out(self._loops.process.clock(), complete=True)
            raise
        self._latest = epoch
        self._means_begin = item[0] == 0  # Keras resets its metrics with each of its epochs
        return item

    def begins(self) -> None:
        """The train function was called: the epoch iterator used last is training's."""
        self._current = self._latest

    def call(self) -> tuple[int | None, bool]:
        """The steps of the last call of the train function.

        How many updates it made, None if only Keras knows, and whether it was the first
        of an epoch.
        """
        begins, self._means_begin = self._means_begin, False
        epoch = self._current
        updates: int = getattr(epoch, "steps_per_execution", 1)
        if updates == 1:
            return 1, begins
        batches = epoch.data_adapter.num_batches
        if batches is None:
            return None, begins
        return updates - max(0, epoch._steps_seen - batches), begins

    def steps(self) -> int | None:
        """Steps of an epoch, if Keras knows."""
        epoch = self._current
        if epoch is None:
            return None
        # not what Keras counted: the steps on repeated batches are in it
        steps: int | None = epoch.steps_per_epoch or epoch.data_adapter.num_batches
        return steps

    def close(self) -> bool:
        """Stop the workers that all iterators of a `PyDataset` share, if there are any.

        Two iterators at a time would take each other's batches, and wait for ever.
        """
        adapter: Any = getattr(self._current, "data_adapter", None)
        enqueuer = getattr(adapter, "enqueuer", None)
        if enqueuer is None:
            return False
        if adapter._within_epoch:
            adapter.on_epoch_end()
        enqueuer.stop()
        return True

    def _next_epoch(self) -> Any:
        """The iterator of the next epoch: of a dataset that is repeated Keras keeps the same."""
        epoch: Any = self._current
        endless = epoch.steps_per_epoch and epoch.data_adapter.num_batches is None
        return self.again(keep=bool(endless))

    def again(self, keep: bool = False) -> Any:
        """Begin another epoch; return its iterator, or None if there is none.

        A Python generator cannot be begun again: it goes on where it is, or is spent. With `keep`
        so does everything else.
        """
        epoch = self._current
        if epoch is None:
            return None
        adapter = epoch.data_adapter
        once = type(adapter).__name__ == "GeneratorDataAdapter"
        if once and not epoch.steps_per_epoch:
            return None
        if getattr(adapter, "_within_epoch", False):
            adapter.on_epoch_end()
        if not (once or keep):
            epoch._current_iterator = None
        epoch._epoch_iterator = epoch._enumerate_iterator()
        try:
            return next(epoch._epoch_iterator)[2]
        except StopIteration:
            return None

"""The epochs of Keras 3's `fit`: kept from ending while more is to be measured."""

from __future__ import annotations

import threading
import weakref
from typing import Any, NoReturn

from ..process.patching import after, around


class Epochs:
    """Keeps Keras's loop going past the end of an epoch, and ends it when told."""

    def __init__(self, loops: Any) -> None:
        self._loops = loops
        self._current: Any = None
        self._latest: Any = None
        self._means_begin = False

    def watch(self, trainer: Any, iterator: Any) -> None:
        """Set the hooks of a trainer, and of the iterator over its epochs."""

        def made(model: Any, *args: Any, **kwargs: Any) -> None:
            if not isinstance(model.train_function, TrainFunction):
                model.train_function = TrainFunction(self, model, model.train_function)

        process = self._loops.process
        after(process, trainer, "make_train_function", "a train function", made)
        around(process, iterator, "__next__", ours=True)(
            lambda original, epoch: self.next(epoch, original)
        )

    def passive(self) -> bool:
        """Whether a call of the train function is no step of the loop."""
        loops = self._loops
        return bool(loops.process.off or loops.depth) or threading.get_ident() != loops.main

    def train(self, model: Any, function: Any, *given: Any) -> Any:
        """A step of the model's training, by its own train function."""
        (iterator,), loops = given, self._loops
        if not hasattr(iterator, "element_spec"):  # of `train_on_batch`
            return function(iterator)
        self._current = self._latest  # the epoch iterator used last is training's
        logs = loops.step_with_iterator(
            model, iterator, function, kind="fit", epochs=self, model=model
        )
        if loops.losses is not None:
            loops.losses.fitted(model, logs, *self.call())
        return logs

    def next(self, epoch: Any, original: Any) -> Any:
        """The next `(first step, last step, iterator)` of Keras's loop."""
        driver: Any = self._loops.training.driver
        training = epoch is self._current and getattr(driver, "epochs", None) is self
        if training and driver.end_epoch():
            self._stop(epoch)
        try:
            item = original(epoch)
        except StopIteration:
            if training and driver.resident and driver.wants_more:
                driver.source_over = True
                return 0, epoch.steps_per_execution - 1, driver.given
            if training and driver.wants_more:
                # of a dataset that is repeated Keras keeps the same iterator
                endless = epoch.steps_per_epoch and epoch.data_adapter.num_batches is None
                if (iterator := self.again(keep=bool(endless))) is not None:
                    driver.epoch_went_on(iterator)
                    return 0, epoch.steps_per_execution - 1, iterator
            if training:
                driver.ran_out(self._loops.process.clock(), complete=True)
            raise
        self._latest = epoch
        self._means_begin = item[0] == 0  # Keras resets its metrics with each of its epochs
        return item

    def _stop(self, epoch: Any) -> NoReturn:
        """Have Keras begin another epoch of its own."""
        epoch._current_iterator = None
        epoch._steps_seen = 0
        epoch.data_adapter.on_epoch_end()
        raise StopIteration

    def call(self) -> tuple[int | None, bool]:
        """The updates of the last call of the train function, None if only Keras knows how many.

        And whether it was the first of an epoch.
        """
        begins, self._means_begin = self._means_begin, False
        epoch = self._current
        updates: int = getattr(epoch, "steps_per_execution", 1)
        if updates == 1:
            return 1, begins
        batches = epoch.data_adapter.num_batches
        return None if batches is None else updates - max(0, epoch._steps_seen - batches), begins

    def steps(self) -> int | None:
        """Steps of an epoch, if Keras knows."""
        epoch = self._current
        # not what Keras counted: the steps on repeated batches are in it
        return None if epoch is None else epoch.steps_per_epoch or epoch.data_adapter.num_batches

    def close(self) -> bool:
        """Stop the workers that all iterators of a `PyDataset` share, if there are any.

        Two iterators at a time would take each other's batches, and wait for ever.
        """
        adapter: Any = getattr(self._current, "data_adapter", None)
        enqueuer = getattr(adapter, "enqueuer", None)
        if enqueuer is None:
            return False
        self._end(adapter)
        enqueuer.stop()
        return True

    def _end(self, adapter: Any) -> None:
        """End an epoch of what feeds the loop, where that has not ended."""
        if getattr(adapter, "_within_epoch", False):
            adapter.on_epoch_end()

    def again(self, keep: bool = False) -> Any:
        """Begin another epoch; return its iterator, or None if there is none.

        A Python generator cannot be begun again: it goes on where it is, or is spent. With `keep`
        so does everything else.
        """
        epoch = self._current
        if epoch is None:
            return None
        once = type(epoch.data_adapter).__name__ == "GeneratorDataAdapter"
        if once and not epoch.steps_per_epoch:
            return None
        self._end(epoch.data_adapter)
        if not (once or keep):
            epoch._current_iterator = None
        epoch._epoch_iterator = epoch._enumerate_iterator()
        item = next(epoch._epoch_iterator, None)
        return None if item is None else item[2]


class TrainFunction:
    """Stands for `model.train_function`: calls it, as a step of the loop."""

    def __init__(self, epochs: Epochs, model: Any, function: Any) -> None:
        self._epochs = epochs
        self._model = weakref.ref(model)
        self.original = function
        self._called = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)

    def __call__(self, *given: Any) -> Any:
        epochs, model = self._epochs, self._model()
        if epochs.passive():
            return self.original(*given)
        driver = epochs._loops.training.driver
        cycles = None if driver is None else driver.cycles
        if cycles is not None and cycles.step(self._called and driver.serves(model)):
            return cycles.first_step(lambda: self.original(*given))
        self._called = True  # another one is made where the model is compiled again
        return epochs.train(model, self.original, *given)

"""The epochs of Keras 3's `fit`: kept from ending while more is to be measured."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

from ..process.patching import after, around
from ..tensorflow import facts, models
from ..tensorflow.loops import TensorFlowLoops
from ..timing.drivers.loop_drivers import FitDriver


class Epochs:
    """Keeps Keras's loop going past the end of an epoch, and ends it when told."""

    def __init__(self, loops: TensorFlowLoops) -> None:
        self._loops = loops
        self._current: Any = None
        self._latest: Any = None
        self._means_begin = False

    def watch_iterator(self, iterator: Any) -> None:
        """Set the hook of the class that iterates over epochs."""

        around(self._loops.process, iterator, "__next__", ours=True)(
            lambda original, epoch: self.next(epoch, original)
        )

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
            if training and driver.wants_more and (iterator := self._go_on()) is not None:
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
        if adapter._within_epoch:
            adapter.on_epoch_end()
        enqueuer.stop()
        return True

    def _go_on(self) -> Any:
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


class EagerEpochs(Epochs):
    """As on TensorFlow; what feeds the loop may be opened anew without Keras's count of steps."""

    def __init__(self, loops: Any) -> None:
        super().__init__(loops)
        self._model: Callable[[], Any] = lambda: None
        self.feeds = False

    def next(self, epoch: Any, original: Any) -> Any:
        if self._loops.passive():
            return original(epoch)
        driver: Any = self._loops.training.driver
        training = isinstance(driver, FitDriver) and epoch is self._current
        if training and driver.fit_epoch_over():
            self._stop(epoch)
        self.feeds = epoch is self._current
        try:
            item = original(epoch)
        except StopIteration:
            if not training or driver.between():  # the input ran out, as is known
                raise
            if not driver.wants_more:
                driver.ran_out(self._loops.process.clock(), complete=True)
                self._end(epoch)
                raise
            return self._beyond(epoch, driver)
        finally:
            self.feeds = False
        self._latest = epoch
        return item

    def _beyond(self, epoch: Any, driver: Any) -> Any:
        """One more step after the last of an epoch by Keras's count."""
        epoch._current_iterator = None  # Keras has opened the next one
        self.feeds = True
        try:
            return 0, 0, [next(driver.given)]
        except StopIteration:
            self._end(epoch)
            raise

    def _end(self, epoch: Any) -> None:
        """End an epoch of a `PyDataset` that was begun again: Keras ended the one before."""
        if getattr(epoch.data_adapter, "_within_epoch", False):
            epoch.data_adapter.on_epoch_end()

    @property
    def stopped(self) -> bool:
        """Whether Keras has stopped the workers of a `PyDataset`, which raises if it is asked."""
        adapter = self._current.data_adapter
        return getattr(adapter, "enqueuer", None) is not None and not adapter._within_epoch

    def again(self, keep: bool = False) -> Any:
        epoch = self._current
        adapter = epoch.data_adapter
        if type(adapter).__name__ == "GeneratorDataAdapter":
            return None
        if getattr(adapter, "_within_epoch", False):
            adapter.on_epoch_end()
        adapter.on_epoch_begin()
        return iter(epoch._get_iterator())

    # ------------------------------------------------------- asked for by the driver

    @property
    def model(self) -> Any:
        return self._model()

    @property
    def source(self) -> Any:
        """The `tf.data.Dataset` or `DataLoader` that `fit` was given, None for all else."""
        x = facts.given_to_fit(self._loops.fit_call).get("x")
        kinds = {cls.__name__ for cls in type(x).__mro__}
        return x if kinds & {"DatasetV2", "DataLoader"} else None

    def facts(self, driver: Any) -> dict[str, Any]:
        """The arguments of the call of `fit`, and the steps of an epoch."""
        return facts.fit_facts(driver)

    def record(self, driver: Any) -> None:
        """Record the model in Keras's terms, and its callbacks."""
        models.record(driver)
        facts.record_callbacks(driver)

    def stages(self, driver: Any, deadline: float) -> None:
        """Time the stages of the user's own dataset, in the terms of its framework."""
        if driver.loader is not None:
            from ..torch.loader import stages as torch_stages

            torch_stages.record(driver, deadline)
        elif driver.dataset() is not None:
            from ..tensorflow import stages as tf_stages

            tf_stages.record(driver, deadline)
        else:
            reason = "`fit` was given neither a dataset of tf.data nor a DataLoader"
            driver.record.write("missing", what="stages", reason=reason)

    # ------------------------------------------------------------ from the hooks

    def watch(self, trainer: Any, iterator: Any) -> None:
        """Set the hooks of a trainer, and of the iterator over its epochs."""

        def made(model: Any, *args: Any, **kwargs: Any) -> None:
            if not hasattr(model.train_function, "_trainperf_epochs"):
                model.train_function = self._stepping(weakref.ref(model), model.train_function)

        after(self._loops.process, trainer, "make_train_function", "a train function", made)
        self.watch_iterator(iterator)

    def _stepping(self, model: Callable[[], Any], function: Any) -> Any:
        loops: Any = self._loops

        def train_function(*given: Any) -> Any:
            if loops.process.off or threading.get_ident() != loops.main:
                return function(*given)
            driver = loops.training.driver
            cycles = None if driver is None else driver.cycles
            if cycles is not None and cycles.step(driver.serves(model())):
                return cycles.first_step(lambda: function(*given))
            self.begins()
            self._model = model
            loops.epochs = self
            return function(*given)

        train_function._trainperf_epochs = self  # type: ignore[attr-defined]
        return train_function

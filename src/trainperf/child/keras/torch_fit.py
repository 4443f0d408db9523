"""Keras 3's `fit` on PyTorch: it takes its batches from Python, and counts its own steps."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from ..tensorflow import facts, models, stages
from ..torch.drivers import LoaderDriver
from ..torch.loader import stages as torch_stages
from .epochs import Epochs


class EagerEpochs(Epochs):
    """As on TensorFlow; what feeds the loop may be opened anew without Keras's count of steps."""

    def __init__(self, loops: Any) -> None:
        super().__init__(loops)
        self.model: Callable[[], Any] = lambda: None
        self.feeds = False

    def train(self, model: Any, function: Any, *given: Any) -> Any:
        self._current = self._latest
        self.model = weakref.ref(model)
        self._loops.epochs = self
        return function(*given)

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
                self._end(epoch.data_adapter)
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
            self._end(epoch.data_adapter)
            raise

    @property
    def stopped(self) -> bool:
        """Whether Keras has stopped the workers of a `PyDataset`, which raises if it is asked."""
        adapter = self._current.data_adapter
        return getattr(adapter, "enqueuer", None) is not None and not adapter._within_epoch

    def driver(self, loops: Any, iterator: Any) -> FitDriver:
        return FitDriver(loops, iterator)

    def again(self, keep: bool = False) -> Any:
        epoch = self._current
        if type(epoch.data_adapter).__name__ == "GeneratorDataAdapter":
            return None
        self._end(epoch.data_adapter)
        epoch.data_adapter.on_epoch_begin()
        return iter(epoch._get_iterator())


class FitDriver(LoaderDriver):
    """A loop of Keras's: `epochs` tells it when an epoch is over."""

    kind = "fit"

    def __init__(self, loops: Any, iterator: Any) -> None:
        self.epochs: Any = loops.epochs
        self.model = self.epochs.model()
        super().__init__(loops, iterator)
        # Before the probes: whatever time is left, facts are recorded.
        self.extras.insert(-1, ("facts", lambda deadline: self._record()))

    def _record(self) -> None:
        """Record the model in Keras's terms, and its callbacks."""
        models.record(self)
        facts.record_callbacks(self)

    @property
    def given(self) -> Any:
        return self._iterator

    def serves(self, owner: Any) -> bool:
        return owner is self.model

    def next(self, iterator: Any, original: Callable[[Any], Any]) -> Any:
        """As in every loop; an input that Keras has stopped is begun again as one that is over."""

        def taken(source: Any) -> Any:
            if self.epochs.stopped:
                raise StopIteration
            return original(source)

        return super().next(iterator, taken)

    def companion(self, iterator: Any) -> bool:
        """Keras takes from one iterator only."""
        return False

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"batches_per_step": 1, **facts.fit_facts(self)}

    def dataset(self) -> Any:
        """The `tf.data.Dataset` or `DataLoader` that `fit` was given, None for all else."""
        x = facts.given_to_fit(self.loops.fit_call).get("x")
        kinds = {cls.__name__ for cls in type(x).__mro__}
        return x if kinds & {"DatasetV2", "DataLoader"} else None

    @property
    def loader(self) -> Any:
        """The user's `DataLoader`, None where there is none: Keras makes some of its own."""
        return self.dataset() if type(self.dataset()).__name__ == "DataLoader" else None

    def can_end(self) -> bool:
        return True

    def end_epoch(self) -> bool:
        """Not where Keras asks for a batch: it would say that the input ran out of data."""
        return False

    def fit_epoch_over(self) -> bool:
        """Whether Keras is to be told, as it asks for the next step, that the epoch is over."""
        return super().end_epoch()

    def _feeds(self, dataset: Any) -> bool:
        return bool(self.epochs.feeds)

    def _open_again(self) -> Any:
        return self.epochs.again()

    def _time_stages(self, deadline: float) -> None:
        """Time the stages of the user's own dataset, in the terms of its framework."""
        if self.loader is not None:
            torch_stages.record(self, deadline)
        elif self.dataset() is not None:
            stages.record(self, deadline)
        else:
            reason = "`fit` was given neither a dataset of tf.data nor a DataLoader"
            self.record.write("missing", what="stages", reason=reason)

"""See Keras 2 (`tf_keras`) train: the same as `hooks.py`, for its other structure."""

from __future__ import annotations

from functools import cache
from typing import Any

from ..process.patching import around
from ..tensorflow.loops import TensorFlowLoops
from .calls import (
    drive_train_function,
    remember_built,
    remember_compile,
    time_callbacks,
    watch_calls_of,
    watch_train_on_batch,
)
from .epochs import Epochs


def watch_callbacks(loops: TensorFlowLoops, module: Any) -> None:
    remember_built(loops, module.Callback)
    time_callbacks(loops, module.CallbackList)


def watch_model(loops: TensorFlowLoops, module: Any) -> None:
    @around(loops.process, module.Model, "make_train_function", ours=True)
    def make(original: Any, model: Any, force: bool = False) -> Any:
        original(model, force)
        drive_train_function(loops, model, _epochs(loops))
        return model.train_function

    watch_train_on_batch(loops, module.Model)
    remember_compile(loops, module.Model)
    watch_calls_of(loops, module.Model)


def watch_data(loops: TensorFlowLoops, module: Any) -> None:
    @around(loops.process, module.DataHandler, "steps", ours=True)
    def steps(original: Any, handler: Any) -> Any:
        return _epochs(loops).steps_of(handler, original)


class _Epochs(Epochs):
    """The same for Keras 2's handler of data, in the place of an iterator over epochs."""

    def steps_of(self, handler: Any, original: Any) -> Any:
        """Yield the steps of an epoch, more of them while the driver wants more."""
        for step in original(handler):
            driver: Any = self._loops.training.driver
            if self._training(handler, driver) and driver.end_epoch():
                return
            self._latest = handler
            self._means_begin = step == 0
            yield step
        driver = self._loops.training.driver
        while self._training(handler, driver) and driver.wants_more:
            if driver.resident:
                yield 0
                continue
            iterator = self.again()
            if iterator is None:
                break
            driver.epoch_went_on(iterator)
            for step in original(handler):
                if driver.end_epoch():
                    return
                yield step
        if self._training(handler, driver):
            driver.epoch_ended(self._loops.process.clock())

    def _training(self, handler: Any, driver: Any) -> bool:
        return handler is self._current and getattr(driver, "epochs", None) is self

    def call(self) -> tuple[int | None, bool]:
        begins, self._means_begin = self._means_begin, False
        updates: int = getattr(self._current, "step_increment", 0) + 1
        unknown = updates > 1 and self._current._adapter.get_size() is None
        return None if unknown else updates, begins

    def steps(self) -> int | None:
        return self._current.inferred_steps if self._current is not None else None

    def close(self) -> bool:
        """Nothing to do: each iterator starts workers of its own."""
        return False

    def again(self, keep: bool = False) -> Any:
        """Open the training data anew; return the iterator."""
        if self._current is None or not self._current._adapter.should_recreate_iterator():
            return None
        self._current._current_step = 0
        return iter(self._current._dataset)


@cache
def _epochs(loops: TensorFlowLoops) -> _Epochs:
    return _Epochs(loops)

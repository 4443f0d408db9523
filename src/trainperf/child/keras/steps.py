"""A step and an update of the weights in Keras 3, and in Keras 2 alike."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from ..process.patching import replace
from ..tensorflow.loops import TensorFlowLoops


def drive_train_function(loops: TensorFlowLoops, model: Any, epochs: Any) -> None:
    """Wrap `model.train_function`, once, so that its calls are the loop's steps."""
    function = model.train_function
    if function is None or isinstance(function, _TrainFunction):
        return
    model.train_function = _TrainFunction(loops, model, function, epochs)


class _TrainFunction:
    """Stands for `model.train_function`: calls it, as a step of the loop."""

    def __init__(self, loops: TensorFlowLoops, model: Any, function: Any, epochs: Any) -> None:
        self._loops = loops
        self._model = weakref.ref(model)
        self._function = function
        self._epochs = epochs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)

    def __call__(self, iterator: Any) -> Any:
        from tensorflow.python.data.ops.iterator_ops import IteratorBase
        from tensorflow.python.distribute.input_lib import DistributedIteratorBase

        loops = self._loops
        if (
            loops.process.off
            or loops.depth
            or threading.get_ident() != loops.main
            or not isinstance(iterator, (IteratorBase, DistributedIteratorBase))
        ):
            return self._function(iterator)
        driver = loops.training.driver
        if driver is not None and driver.cycles is not None:
            driver.cycles.step(driver.serves(self._model()))
        self._epochs.begins()
        model = self._model()
        logs = loops.step_with_iterator(
            model, iterator, self._function, kind="fit", epochs=self._epochs, model=model
        )
        if loops.losses is not None:
            loops.losses.fitted(model, logs, *self._epochs.call())
        return logs

    def unwrapped(self) -> Any:
        """The function Keras made."""
        return self._function


def make_train_on_batch(loops: TensorFlowLoops) -> Any:
    """Make the wrapper of `train_on_batch`: each call is a step."""

    def make(original: Any) -> Any:
        def train_on_batch(self: Any, *args: Any, **kwargs: Any) -> Any:
            if loops.process.off or loops.depth or threading.get_ident() != loops.main:
                return original(self, *args, **kwargs)
            batch = args[:2] or kwargs.get("x")
            return loops.step_call(
                ("train_on_batch", id(self)), lambda: original(self, *args, **kwargs), batch
            )

        return train_on_batch

    return make


def watch_apply(loops: TensorFlowLoops, owner: Any, name: str) -> None:
    """Count each application of an optimizer as an update of the weights."""

    def make(original: Any) -> Any:
        def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
            if loops.process.off:
                return original(self, *args, **kwargs)
            loops.applying += 1
            loops.applies(self)
            try:
                return original(self, *args, **kwargs)
            finally:
                loops.applying -= 1
                if not loops.applying:
                    loops.weights_updated(("optimizer", id(self)))

        return apply

    replace(owner, name, make)

"""See Keras 3 train: `fit`, `train_on_batch`, callbacks, and where things were built."""

from __future__ import annotations

import sys
import threading
import weakref
from types import ModuleType
from typing import Any

from . import frames
from .keras_callbacks import time_callbacks
from .observer import Observer
from .patching import replace
from .tf_loops import TensorFlowLoops
from .tf_strategies import strategies_of
from .tf_strategy_hooks import make_model


def hook(observer: Observer, module: ModuleType) -> None:
    """Set the hooks of one Keras module that was just imported."""
    loops = _loops(observer)
    any_module: Any = module
    name = module.__name__.removeprefix("keras.src.")
    if name == "backend.tensorflow.trainer":
        _trainer(loops, any_module)
    elif name == "callbacks.callback":
        remember_site(loops, any_module.Callback, "__init__")
    elif name == "callbacks.callback_list":
        time_callbacks(loops, any_module.CallbackList)
    elif name == "layers.rnn.rnn":
        remember_site(loops, any_module.RNN, "__init__")
    elif name == "optimizers.base_optimizer":
        watch_apply(loops, any_module.BaseOptimizer, "apply")
    elif name == "trainers.data_adapters.py_dataset_adapter":
        remember_site(loops, any_module.PyDataset, "__init__")
    elif name == "trainers.trainer":
        remember_compile(loops, any_module.Trainer)
    observer.record.write("hook", name=module.__name__)


def _loops(observer: Observer) -> Any:
    """What the hooks of Keras's backend share: PyTorch's where it trains with that."""
    config: Any = sys.modules.get("keras.src.backend.config")
    if config is not None and config.backend() == "torch":
        from . import torch

        return torch.loops_of(observer)
    from . import tensorflow

    return tensorflow.loops_of(observer)


def _trainer(loops: TensorFlowLoops, module: Any) -> None:
    trainer = module.TensorFlowTrainer
    epochs = _Epochs(loops)

    def make_function(original: Any) -> Any:
        def make_train_function(self: Any, force: bool = False) -> Any:
            result = original(self, force)
            drive_train_function(loops, self, epochs)
            return result

        return make_train_function

    def make_next(original: Any) -> Any:
        def __next__(self: Any) -> Any:  # noqa: N807
            return epochs.next(self, original)

        return __next__

    replace(trainer, "__init__", make_model(loops.observer))
    replace(trainer, "make_train_function", make_function)
    replace(trainer, "train_on_batch", make_train_on_batch(loops))
    remember_call(loops, trainer, "fit")
    time_evaluation(loops, trainer)
    replace(module.TFEpochIterator, "__next__", make_next)


class _Epochs:
    """Keeps Keras's loop going past the end of an epoch, and ends it when told."""

    def __init__(self, loops: TensorFlowLoops) -> None:
        self._loops = loops
        self._current: Any = None
        self._latest: Any = None
        self._means_begin = False

    def next(self, epoch: Any, original: Any) -> Any:
        """The next `(first step, last step, iterator)` of Keras's loop."""
        driver: Any = self._loops.observer.driver
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
            if training and driver.wants_more and (iterator := self.again()) is not None:
                driver.epoch_went_on(iterator)
                return 0, epoch.steps_per_execution - 1, iterator
            if training:
                driver.epoch_ended(self._loops.observer.clock())
            raise
        self._latest = epoch
        self._means_begin = item[0] == 0  # Keras resets its metrics with each of its epochs
        return item

    def begins(self) -> None:
        """The train function was called: the epoch iterator used last is training's."""
        self._current = self._latest

    def call(self) -> tuple[int | None, bool]:
        """What the last call of the train function did.

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

    def again(self) -> Any:
        """Begin another epoch; return its iterator, or None if there is none.

        A Python generator cannot be begun again: it goes on where it is, or is spent.
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
        if not once:
            epoch._current_iterator = None
        epoch._epoch_iterator = epoch._enumerate_iterator()
        try:
            return next(epoch._epoch_iterator)[2]
        except StopIteration:
            return None


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
            loops.observer.off
            or loops.depth
            or threading.get_ident() != loops.main
            or not isinstance(iterator, (IteratorBase, DistributedIteratorBase))
        ):
            return self._function(iterator)
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
            if loops.observer.off or loops.depth or threading.get_ident() != loops.main:
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
            if loops.observer.off:
                return original(self, *args, **kwargs)
            loops.applying += 1
            try:
                return original(self, *args, **kwargs)
            finally:
                loops.applying -= 1
                if not loops.applying:
                    loops.weights_updated(("optimizer", id(self)))

        return apply

    replace(owner, name, make)


def remember_site(loops: TensorFlowLoops, owner: Any, name: str) -> None:
    """Note on each object where in the user's source `name` was called for it."""

    def make(original: Any) -> Any:
        def remembering(self: Any, *args: Any, **kwargs: Any) -> Any:
            key = (name, id(self))
            if not loops.observer.off and key not in loops.sites:
                try:
                    loops.sites[key] = frames.here(skip_self=self)
                    weakref.finalize(self, loops.sites.pop, key, None).atexit = False
                except Exception as error:
                    loops.observer.failed(f"site of {name}", error)
            return original(self, *args, **kwargs)

        return remembering

    replace(owner, name, make)


def time_evaluation(loops: TensorFlowLoops, owner: Any) -> None:
    """Time each evaluation: during `fit` it is what validation costs."""

    def make(original: Any) -> Any:
        def evaluate(self: Any, *args: Any, **kwargs: Any) -> Any:
            began = loops.observer.clock()
            try:
                return original(self, *args, **kwargs)
            finally:
                seconds = loops.observer.clock() - began
                loops.observer.record.write("evaluate", s=began, seconds=seconds)

        return evaluate

    replace(owner, "evaluate", make)


def remember_compile(loops: TensorFlowLoops, owner: Any) -> None:
    """Note where a model was compiled last, and with what."""

    def make(original: Any) -> Any:
        def compile(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not loops.observer.off:
                loops.sites["compile", id(self)] = frames.here(skip_self=self)
                loops.compile_arguments[id(self)] = kwargs
            return original(self, *args, **kwargs)

        return compile

    replace(owner, "compile", make)


def remember_call(loops: TensorFlowLoops, owner: Any, name: str) -> None:
    """Note the site and the arguments of the latest outermost call of `fit`."""

    def make(original: Any) -> Any:
        def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
            if loops.observer.off:
                return original(self, *args, **kwargs)
            loops.fit_call = (frames.here(), args, kwargs)
            strategies_of(loops.observer).write()  # `fit` may fail under it
            result = original(self, *args, **kwargs)
            driver = loops.observer.driver
            if driver is not None and driver.ending:
                loops.observer.finish()  # what stands after the training must not run
            if driver is not None and driver.kind == "fit":
                driver.loop_over()
            return result

        return fit

    replace(owner, name, make)

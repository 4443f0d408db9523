"""What is watched in Keras 3 and Keras 2 alike: calls of a model, its steps, callbacks."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from ..process import frames, turns
from ..process.patching import after, around, before, replace
from ..tensorflow.loops import TensorFlowLoops
from ..timing.calls import InsteadOf

VALIDATION = "_use_cached_eval_dataset"
"""An argument that only `fit` gives to `evaluate` (Keras 2.13 to 3.15)."""

CALLBACK_HOOKS = (
    "on_train_batch_begin",
    "on_train_batch_end",
    "on_epoch_begin",
    "on_epoch_end",
)


def remember_built(loops: TensorFlowLoops, owner: Any) -> None:
    """Note of each object of a class where in the user's source it was built."""

    def remember(made: Any, *args: Any, **kwargs: Any) -> None:
        key = ("__init__", id(made))
        if key not in loops.sites:
            loops.sites[key] = frames.here(skip_self=made)
            weakref.finalize(made, loops.sites.pop, key, None).atexit = False

    before(loops.process, owner, "__init__", f"where a {owner.__name__} is built", remember)


def watch_calls_of(loops: Any, owner: Any, instead: InsteadOf | None = None) -> None:
    """See `fit` of a model's class; time its evaluations, and count what else does not train it.

    During `fit` an evaluation is what validation costs. `instead` tells what could stand for a
    call of `predict`.
    """
    replace(owner, "predict", loops.calls.counting("predict", rows, instead))
    for name in ("predict_on_batch", "test_on_batch"):
        replace(owner, name, loops.calls.counting(name, rows))

    @around(loops.process, owner, "evaluate", ours=True)
    def evaluate(original: Any, *args: Any, **kwargs: Any) -> Any:
        began = loops.process.clock()
        try:
            return original(*args, **kwargs)
        finally:
            seconds = loops.process.clock() - began
            loops.process.record.write("evaluate", s=began, seconds=seconds)
            if not kwargs.get(VALIDATION):
                loops.calls.add("evaluate", seconds)

    @around(loops.process, owner, "fit")
    def fit(original: Any, *args: Any, **kwargs: Any) -> Any:
        driver = loops.training.driver
        if driver is not None and driver.cycles is not None:
            driver.cycles.fit_begins()
        loops.fit_call = (frames.here(), args[1:], kwargs)
        result = original(*args, **kwargs)
        driver = loops.training.driver
        if driver is not None and driver.cycles is not None:
            driver.cycles.fit_ended(turns.loop_around(own=False)[1])
        elif driver is not None and driver.ending:
            loops.process.finish()  # what stands after the training must not run
        elif driver is not None and driver.kind == "fit":
            driver.loop_over()
        return result


def rows(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
    """How many samples `predict(self, x)` is given as arrays; None for all else.

    Datasets and generators have none, and what Keras makes arrays of (lists of numbers, frames)
    is not looked into.
    """
    return samples(args[1] if len(args) > 1 else kwargs.get("x"))


def samples(given: Any) -> int | None:
    """How many samples arrays hold that are one input: one array, or several of as many."""
    if isinstance(given, dict):
        given = list(given.values())
    parts = given if isinstance(given, (list, tuple)) else [given]
    if any(type(part).__name__ not in ("ndarray", "EagerTensor") for part in parts):
        return None
    counts = {int(part.shape[0]) if len(part.shape) else None for part in parts}
    return counts.pop() if len(counts) == 1 else None


def remember_compile(loops: TensorFlowLoops, owner: Any) -> None:
    """Note where a model was compiled last, and with what."""

    def compiled(model: Any, *args: Any, **kwargs: Any) -> None:
        loops.sites["compile", id(model)] = frames.here(skip_self=model)
        loops.compile_arguments[id(model)] = kwargs

    before(loops.process, owner, "compile", "how a model is compiled", compiled)


# The cost of each callback, per batch and per epoch.


def time_callbacks(loops: TensorFlowLoops, owner: Any) -> None:
    """Time every callback's hooks by standing in for them while the list runs them."""

    def made(given: Any, *args: Any, **kwargs: Any) -> None:
        given.callbacks = [_timed(loops, callback) for callback in given.callbacks]

    after(loops.process, owner, "__init__", "callbacks", made)


def time_logs(loops: TensorFlowLoops, utils: Any) -> None:
    """Charge what the logs of a step wait for its device to the step, not to the callbacks.

    A callback with `on_train_batch_end` makes Keras turn the logs into Python numbers first.
    """

    @around(loops.process, utils, "pythonify_logs")
    def convert(original: Any, logs: Any) -> Any:
        driver = loops.training.driver
        if driver is None or not loops.device.asynchronous:
            return original(logs)
        began = loops.process.clock()
        try:
            return original(logs)
        finally:
            driver.busy += loops.process.clock() - began


def _timed(loops: TensorFlowLoops, callback: Any) -> Any:
    """The same callback, with the four hooks that cost time measured.

    The hooks are shadowed on the instance, so the object stays what it was for
    `isinstance`, attributes and other callbacks.
    """
    costs = loops.callback_costs.setdefault(id(callback), (callback, {}))[1]
    for name in CALLBACK_HOOKS:
        method = getattr(callback, name, None)
        if method is not None and not hasattr(method, "_trainperf_original"):
            setattr(callback, name, _timing(loops, method, costs, name))
    return callback


def _timing(loops: TensorFlowLoops, method: Any, costs: dict[str, list[float]], name: str) -> Any:
    clock = loops.process.clock

    def timed(*args: Any, **kwargs: Any) -> Any:
        began, own_s = clock(), loops.in_place.own_s
        try:
            return method(*args, **kwargs)
        finally:
            seconds = clock() - began - (loops.in_place.own_s - own_s)
            count, total, most = costs.setdefault(name, [0, 0.0, 0.0])
            driver = loops.training.driver
            if driver is not None and ("epoch" in name or driver.counts_callbacks()):
                costs[name] = [count + 1, total + seconds, max(most, seconds)]

    timed._trainperf_original = method  # type: ignore[attr-defined]
    return timed


# Steps and updates of the weights.


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
        self._traced = False

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
        cycles = None if driver is None else driver.cycles
        if cycles is not None and cycles.step(self._traced and driver.serves(self._model())):
            return cycles.first_step(lambda: self._function(iterator))
        self._traced = True  # another one is made where the model is compiled again
        self._epochs.begins()
        model = self._model()
        logs = loops.step_with_iterator(
            model, iterator, self._function, kind="fit", epochs=self._epochs, model=model
        )
        if loops.losses is not None:
            loops.losses.fitted(model, logs, *self._epochs.call())
        return logs

    def unwrapped(self) -> Any:
        return self._function


def watch_train_on_batch(loops: TensorFlowLoops, owner: Any) -> None:
    """Take each call of `train_on_batch` as a step."""

    @around(loops.process, owner, "train_on_batch")
    def train(original: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
        if loops.depth or threading.get_ident() != loops.main:
            return original(model, *args, **kwargs)
        batch = args[:2] or kwargs.get("x")
        key = ("train_on_batch", id(model))
        return loops.step_call(key, lambda: original(model, *args, **kwargs), batch)


def watch_apply(loops: TensorFlowLoops, owner: Any) -> None:
    """Count each application of an optimizer as an update of the weights."""

    @around(loops.process, owner, "apply" if "apply" in vars(owner) else "apply_gradients")
    def apply(original: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        loops.applying += 1
        loops.applies(optimizer)
        try:
            return original(optimizer, *args, **kwargs)
        finally:
            loops.applying -= 1
            if not loops.applying:
                loops.weights_updated(("optimizer", id(optimizer)))

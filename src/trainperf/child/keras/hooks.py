"""See Keras 3 train: `fit`, `train_on_batch`, callbacks, and where things were built."""

from __future__ import annotations

import functools
import os
import sys
import threading
import weakref
from collections import Counter
from types import FrameType
from typing import Any

from ..process import frames, turns
from ..process.patching import after, around, before, replace
from ..process.process import Attempt
from ..tensorflow.loops import TensorFlowLoops
from ..tensorflow.models import backend
from ..timing.calls import InsteadOf
from ..timing.loop import REAL, RESIDENT
from ..timing.loops import Loops
from .epochs import Epochs

NAME = "model(x)"
"""The name of such a call in the record."""

MOST_MODELS = 4
"""A place where more models than that were called first makes them anew: each would be traced."""

_Place = tuple[str, int | str]
"""A file, and a line of it or the name of a function."""

_MOST_ROWS = 32
"""Samples that `predict` takes as one batch by default."""

_FOREIGN = frozenset({"FlaxLayer", "JaxLayer", "Lambda", "TFSMLayer", "TorchModuleWrapper"})
"""Layers of Keras's that run what is not."""


def watch_scopes(loops: TensorFlowLoops, module: Any) -> None:
    """Note which scopes of a graph are those of layers, while a function is traced."""

    def entered(scope: Any) -> None:
        if loops.tracing and scope.caller is not None:
            loops.origins.entered(scope.name, loops.sites.get(("__init__", id(scope.caller))))

    if backend() == "tensorflow":  # layers that run in tf.data's functions import it elsewhere
        after(loops.process, module.name_scope, "__enter__", "the scope of a layer", entered)


def watch_callbacks(loops: TensorFlowLoops, module: Any) -> None:
    time_callbacks(loops, module.CallbackList)
    time_logs(loops, module.python_utils)


def watch_calls(loops: Any, module: Any) -> None:
    """See models being called from Python; of those that PyTorch runs there is no faster way."""
    if backend() == "tensorflow":
        replace(module.Model, "__call__", EagerCalls(loops).make)


def watch_trainer(loops: TensorFlowLoops, module: Any) -> None:
    """See models being trained by `fit` and `train_on_batch`."""
    trainer = module.TensorFlowTrainer
    before(loops.process, trainer, "__init__", "a model", loops.strategies.model)
    take_train_on_batch(loops, trainer)
    count_calls_of(loops, trainer, of_predict)
    Epochs(loops).watch(trainer, module.TFEpochIterator)


def watch_torch_trainer(loops: Loops, module: Any) -> None:
    """See models being trained by `fit` on PyTorch."""
    from .torch_fit import EagerEpochs

    count_calls_of(loops, module.TorchTrainer)
    EagerEpochs(loops).watch(module.TorchTrainer, module.TorchEpochIterator)


class EagerCalls:
    """Counts the user's eager calls of models that do not train, outside of gradient tapes.

    The samples of a call are given as not known where `predict_on_batch` may not stand for it:
    where the same place was also seen within a tape, a traced function or a step, is told more
    than the input, or calls a model that has layers of the user's or is made anew.
    """

    def __init__(self, loops: TensorFlowLoops) -> None:
        self._loops = loops
        self._elsewhere: set[_Place] = set()
        self._known: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
        self._first: Counter[_Place] = Counter()

    def make(self, original: Any) -> Any:
        """The hook of the class of all models."""
        from tensorflow.python.eager import context, record

        loops, calls = self._loops, self._loops.calls

        def __call__(model: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if loops.depth or record.could_possibly_record() or not context.executing_eagerly():
                self._elsewhere.add(_place(sys._getframe(1)))
                if not context.executing_eagerly():
                    self._traced()
            elif not calls.passive() and (rows := _rows(args, kwargs)) is not None:
                caller = sys._getframe(1)
                if frames.is_users(caller.f_code.co_filename):
                    same = self._replaceable(model, caller, args, kwargs)
                    return calls.timed(
                        NAME,
                        rows if same else None,
                        lambda: original(model, *args, **kwargs),
                        (lambda: on_batch(model, args[0])) if same else None,
                    )
            return original(model, *args, **kwargs)

        return __call__

    def _traced(self) -> None:
        """Note the user's function that AutoGraph runs in a form of its own, and the line."""
        from tensorflow.python.util import tf_stack

        with Attempt(self._loops.process, "the call of a model in a traced function"):
            stack = reversed(list(tf_stack.extract_stack()))
            caller = next(frame for frame in stack if not frames.is_ours(frame.filename))
            file = _path(caller.filename)
            # of a call on several lines it knows another one, of a lambda the function around it
            self._elsewhere |= {(file, caller.name), (file, caller.lineno)}
            self._loops.calls.forget_rows(self._elsewhere)

    def _replaceable(
        self, model: Any, caller: FrameType, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> bool:
        with Attempt(self._loops.process, "the call of a model"):
            alone = len(args) == 1 and kwargs.keys() <= {"training"}
            place = _place(caller)
            function = place[0], caller.f_code.co_name
            if not alone or not model.built or self._elsewhere & {place, function}:
                return False
            if model not in self._known:
                self._known[model] = _is_keras(model)
                self._first[place] += 1
            return self._known[model] and self._first[place] <= MOST_MODELS
        return False


_path = functools.cache(os.path.abspath)  # it is asked for at each call of a model


def _place(frame: FrameType) -> _Place:
    return _path(frame.f_code.co_filename), frame.f_lineno


def _rows(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
    """The samples in the arrays that a model is given; None for all else, and where it trains."""
    training = args[1] if len(args) > 1 else kwargs.get("training")
    if not args or (training is not None and training is not False):
        return None
    return samples(args[0])


def _is_keras(model: Any) -> bool:
    """Whether all layers are Keras's, none of them with code of the user's."""
    return all(
        type(layer).__module__.startswith("keras.") and type(layer).__name__ not in _FOREIGN
        for layer in model._flatten_layers()
    )


class OnBatch:
    """`predict_on_batch` of one model, on one input."""

    def __init__(self, model: Any, x: Any) -> None:
        self._model = model
        self._x = x
        generators = [one for layer in model._flatten_layers() for one in layer._seed_generators]
        self._states = [(one.state, one.state.numpy().copy()) for one in generators]

    def __call__(self) -> Any:
        return self._model.predict_on_batch(self._x)

    def undo(self) -> bool:
        """Put back the states of its random generators, if it drew from them."""
        drawn = [(state, was) for state, was in self._states if (state.numpy() != was).any()]
        for state, was in drawn:
            state.assign(was)
        return bool(drawn)

    def traces(self) -> int:
        """Those of the function that the model predicts with; without one there are none."""
        count = getattr(self._model.predict_function, "experimental_get_tracing_count", None)
        return 0 if count is None else int(count())

    def apart(self, result: Any, other: Any) -> float:
        """The largest difference, as a share of the largest number of its array."""
        from tensorflow import nest

        ones, others = nest.flatten(result), nest.flatten(other)
        if len(ones) != len(others):
            return 1.0
        return max(map(_apart, ones, others), default=0.0)


def on_batch(model: Any, x: Any) -> OnBatch | None:
    """Return it where it changes nothing: without state, chance or code of the user's."""
    still = not any(getattr(layer, "stateful", False) for layer in model._flatten_layers())
    return OnBatch(model, x) if still and _is_keras(model) else None


def of_predict(args: tuple[Any, ...], kwargs: dict[str, Any]) -> OnBatch | None:
    """Return what could stand for `predict(self, x)`, where that is told of one small batch."""
    model, *given = args
    if len(given) > 1 or not kwargs.keys() <= {"x", "verbose", "batch_size"}:
        return None
    x = given[0] if given else kwargs.get("x")
    count, size = samples(x), kwargs.get("batch_size")
    if count is None or count > (_MOST_ROWS if size is None else min(size, _MOST_ROWS)):
        return None
    return on_batch(model, x)


def _apart(result: Any, other: Any) -> float:
    import numpy as np

    one, two = np.asarray(result), np.asarray(other)
    if one.shape != two.shape:
        return 1.0
    first, second = one.astype("float64"), two.astype("float64")
    if np.array_equal(first, second, equal_nan=True):
        return 0.0
    with np.errstate(all="ignore"):
        apart = float(np.abs(first - second).max() / np.abs(first).max())
    return min(apart, 1.0) if apart == apart else 1.0


# What is watched on any backend: where things are built, calls of a model, callbacks, steps.

VALIDATION = "_use_cached_eval_dataset"
"""An argument that only `fit` gives to `evaluate` (Keras 3.0 to 3.15)."""

LEGACY = "tf_keras (Keras 2)"

CALLBACK_HOOKS = ("on_train_batch_begin", "on_train_batch_end", "on_epoch_begin", "on_epoch_end")


def remember_built(loops: TensorFlowLoops, owner: Any) -> None:
    """Note of each object of a class where in the user's source it was built."""

    def remember(made: Any, *args: Any, **kwargs: Any) -> None:
        key = ("__init__", id(made))
        if key not in loops.sites:
            loops.sites[key] = frames.here(skip_self=made)
            weakref.finalize(made, loops.sites.pop, key, None).atexit = False

    before(loops.process, owner, "__init__", f"where a {owner.__name__} is built", remember)


def count_calls_of(loops: Any, owner: Any, instead: InsteadOf | None = None) -> None:
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


def watch_legacy(loops: TensorFlowLoops, owner: Any) -> None:
    """Say of the first `fit` of Keras 2 that it is not observed, and end the run."""

    def fit(*args: Any, **kwargs: Any) -> None:
        if loops.training.driver is None:
            loops.process.record.write("unsupported", name=LEGACY, version="")
            loops.process.finish()

    before(loops.process, owner, "fit", "a `fit` of Keras 2", fit)


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
    """Time the hooks of every callback that cost time, by functions of ours in their place.

    They are shadowed on the instance, so that the object stays what it was for `isinstance`,
    attributes and other callbacks.
    """

    def made(given: Any, *args: Any, **kwargs: Any) -> None:
        for callback in given.callbacks:
            costs = loops.callback_costs.setdefault(id(callback), (callback, {}))[1]
            for name in CALLBACK_HOOKS:
                method = getattr(callback, name, None)
                if method is not None and not hasattr(method, "_trainperf_original"):
                    setattr(callback, name, _timing(loops, method, costs, name))

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


def _timing(loops: TensorFlowLoops, method: Any, costs: dict[str, list[float]], name: str) -> Any:
    clock = loops.process.clock

    def timed(*args: Any, **kwargs: Any) -> Any:
        began, own_s = clock(), loops.calls.own_s
        try:
            return method(*args, **kwargs)
        finally:
            seconds = clock() - began - (loops.calls.own_s - own_s)
            count, total, most = costs.setdefault(name, [0, 0.0, 0.0])
            driver = loops.training.driver
            if driver is not None and ("epoch" in name or driver.plan.phase in (REAL, RESIDENT)):
                costs[name] = [count + 1, total + seconds, max(most, seconds)]

    timed._trainperf_original = method  # type: ignore[attr-defined]
    return timed


# Steps and updates of the weights.


def take_train_on_batch(loops: TensorFlowLoops, owner: Any) -> None:
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

    @around(loops.process, owner, "apply")
    def apply(original: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        loops.applying += 1
        loops.applies(optimizer)
        try:
            return original(optimizer, *args, **kwargs)
        finally:
            loops.applying -= 1
            if not loops.applying:
                loops.weights_updated(("optimizer", id(optimizer)))

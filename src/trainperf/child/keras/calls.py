"""What is watched in Keras on any backend: calls of a model, its steps, callbacks."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from ..process import frames, turns
from ..process.patching import after, around, before, replace
from ..tensorflow.loops import TensorFlowLoops
from ..timing.calls import InsteadOf

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

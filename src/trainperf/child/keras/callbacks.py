"""The cost of each Keras callback, per batch and per epoch."""

from __future__ import annotations

from typing import Any

from ..process.patching import after, replace
from ..tensorflow.loops import TensorFlowLoops

CALLBACK_HOOKS = (
    "on_train_batch_begin",
    "on_train_batch_end",
    "on_epoch_begin",
    "on_epoch_end",
)


def time_callbacks(loops: TensorFlowLoops, owner: Any) -> None:
    """Time every callback's hooks by standing in for them while the list runs them."""

    def made(given: Any, *args: Any, **kwargs: Any) -> None:
        given.callbacks = [_timed(loops, callback) for callback in given.callbacks]

    after(loops.process, owner, "__init__", "callbacks", made)


def time_logs(loops: TensorFlowLoops, utils: Any) -> None:
    """Charge what the logs of a step wait for its device to the step, not to the callbacks.

    A callback with `on_train_batch_end` makes Keras turn the logs into Python numbers first.
    """

    def make(original: Any) -> Any:
        def pythonify_logs(logs: Any) -> Any:
            driver = loops.training.driver
            if driver is None or loops.process.off or not loops.device.asynchronous:
                return original(logs)
            began = loops.process.clock()
            try:
                return original(logs)
            finally:
                driver.busy += loops.process.clock() - began

        return pythonify_logs

    replace(utils, "pythonify_logs", make)


def _timed(loops: TensorFlowLoops, callback: Any) -> Any:
    """The same callback, with the four hooks that cost time measured.

    The hooks are shadowed on the instance, so the object stays what it was for
    `isinstance`, attributes and other callbacks.
    """
    costs = loops.callback_costs.setdefault(id(callback), (callback, {}))[1]
    for name in CALLBACK_HOOKS:
        method = getattr(callback, name, None)
        if method is None or hasattr(method, "_trainperf_original"):
            continue
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
            entry = costs.setdefault(name, [0, 0.0, 0.0])
            driver = loops.training.driver
            if driver is not None and ("epoch" in name or driver.counts_callbacks()):
                entry[0] += 1
                entry[1] += seconds
                entry[2] = max(entry[2], seconds)

    timed._trainperf_original = method  # type: ignore[attr-defined]
    return timed

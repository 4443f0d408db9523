"""Where in the user's source Keras was called, with what; in Keras 3 and Keras 2 alike."""

from __future__ import annotations

import weakref
from typing import Any

from ..process import frames, turns
from ..process.patching import before, replace
from ..tensorflow.loops import TensorFlowLoops
from ..timing.calls import InsteadOf

VALIDATION = "_use_cached_eval_dataset"
"""An argument that only `fit` gives to `evaluate` (Keras 2.13 to 3.15)."""


def remember_site(loops: TensorFlowLoops, owner: Any, name: str) -> None:
    """Note on each object where in the user's source `name` was called for it."""

    def remember(made: Any, *args: Any, **kwargs: Any) -> None:
        key = (name, id(made))
        if key not in loops.sites:
            loops.sites[key] = frames.here(skip_self=made)
            weakref.finalize(made, loops.sites.pop, key, None).atexit = False

    before(loops.process, owner, name, f"site of {name}", remember)


def count_calls(loops: TensorFlowLoops, owner: Any, instead: InsteadOf | None = None) -> None:
    """Count the calls of a model that do not train it, and their time.

    `instead` tells what could stand for one of `predict`.
    """
    replace(owner, "predict", loops.calls.counting("predict", rows, instead))
    for name in ("predict_on_batch", "test_on_batch"):
        replace(owner, name, loops.calls.counting(name, rows))


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
    counts = {_first_of_shape(one) for one in parts}
    return counts.pop() if len(counts) == 1 else None


def _first_of_shape(value: Any) -> int | None:
    if type(value).__name__ not in ("ndarray", "EagerTensor"):
        return None
    return int(value.shape[0]) if len(value.shape) else None


def time_evaluation(loops: TensorFlowLoops, owner: Any) -> None:
    """Time each evaluation: during `fit` it is what validation costs."""

    def make(original: Any) -> Any:
        def evaluate(self: Any, *args: Any, **kwargs: Any) -> Any:
            began = loops.process.clock()
            try:
                return original(self, *args, **kwargs)
            finally:
                seconds = loops.process.clock() - began
                loops.process.record.write("evaluate", s=began, seconds=seconds)
                if not kwargs.get(VALIDATION):
                    loops.calls.add("evaluate", seconds)

        return evaluate

    replace(owner, "evaluate", make)


def remember_compile(loops: TensorFlowLoops, owner: Any) -> None:
    """Note where a model was compiled last, and with what."""

    def compiled(model: Any, *args: Any, **kwargs: Any) -> None:
        loops.sites["compile", id(model)] = frames.here(skip_self=model)
        loops.compile_arguments[id(model)] = kwargs

    before(loops.process, owner, "compile", "how a model is compiled", compiled)


def remember_call(loops: TensorFlowLoops, owner: Any, name: str) -> None:
    """Note the site and the arguments of the latest outermost call of `fit`."""

    def make(original: Any) -> Any:
        def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
            if loops.process.off:
                return original(self, *args, **kwargs)
            driver = loops.training.driver
            if driver is not None and driver.cycles is not None:
                driver.cycles.fit_begins()
            loops.fit_call = (frames.here(), args, kwargs)
            loops.fit_begins()
            result = original(self, *args, **kwargs)
            driver = loops.training.driver
            if driver is not None and driver.cycles is not None:
                driver.cycles.fit_ended(turns.loop_around(own=False)[1])
            elif driver is not None and driver.ending:
                loops.process.finish()  # what stands after the training must not run
            elif driver is not None and driver.kind == "fit":
                driver.loop_over()
            return result

        return fit

    replace(owner, name, make)

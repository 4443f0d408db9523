"""Time a TensorFlow step against variations of it that real fixes would make.

Probes run when all else has been recorded: they go on training the model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from ..process.process import in_words
from ..timing.budget import Budget
from ..timing.probing import spare_memory
from ..timing.probing.alternating import CALLS, alternate
from . import batches

if TYPE_CHECKING:
    from ..timing.drivers.driver import Driver

XLA_TRACINGS = 3
"""Compiling a step with XLA takes about so many times as long as tracing it."""
TINY_STEP_S = 0.010
STEPS_PER_EXECUTION = 16


class NotOffered(Exception):  # noqa: N818 - names an outcome
    """A probe that makes no sense for this model; why."""


def record(driver: Any, model: Any, deadline: float) -> None:
    """Run the probes that make sense for a Keras model, those of real fixes first."""
    iterator = driver.replayed
    if iterator is None or not hasattr(model, "_make_function"):
        reason = "there is no batch to replay" if iterator is None else "not offered for Keras 2"
        driver.record.write("missing", what="probes", reason=reason, applies=False)
        return
    base = _function(model)
    tracing = driver.loops.longest_trace
    step = driver.plan.step_estimate()
    for name, run in of_fit(model, step).items():
        takes = (XLA_TRACINGS if name == "jit_compile" else 2) * tracing + CALLS * step
        _attempt(driver, name, deadline, takes, partial(run, driver, model, base, iterator))


def _attempt(
    driver: Driver, name: str, deadline: float, takes: float, run: Callable[[float], None]
) -> None:
    """Run a probe if there is time for it, or record why it is missing."""
    reason, applies = "", True
    if time.monotonic() + takes > deadline:
        reason = Budget.of(driver).lacking(takes, time.monotonic())
    else:
        try:
            run(deadline)
        except NotOffered as error:
            reason, applies = str(error), False
        except Exception as error:
            reason = in_words(error)
    if reason:
        driver.record.write("missing", what=f"probe {name}", reason=reason, applies=applies)


def of_fit(model: Any, step_s: float) -> dict[str, Callable[..., None]]:
    """The probes that make sense for a Keras model, the quick ones first."""
    if model.run_eagerly:
        return {"compiled": _compiled}
    made: dict[str, Callable[..., None]] = {"double_batch": _double_batch, "jit_compile": _jit}
    if model.jit_compile:
        del made["jit_compile"]
    return {"steps_per_execution": _multi_step, **made} if step_s < TINY_STEP_S else made


def _function(model: Any) -> Any:
    function = model.train_function
    return function.unwrapped() if hasattr(function, "unwrapped") else function


@contextmanager
def _with(model: Any, **settings: Any) -> Iterator[Any]:
    """A train function made with other settings of the model, which are put back.

    It is to be called first within: it reads some of them when it is traced.
    """
    before = {name: getattr(model, name) for name in settings}
    try:
        for name, value in settings.items():
            setattr(model, name, value)
        yield model._make_function(model.train_step)
    finally:
        for name, value in before.items():
            setattr(model, name, value)


def _compiled(driver: Any, model: Any, base: Any, iterator: Any, deadline: float) -> None:
    with _with(model, run_eagerly=False) as function:
        pair = (lambda: base(iterator), lambda: function(iterator))
        alternate(driver, "compiled", deadline, *pair)


def _multi_step(driver: Any, model: Any, base: Any, iterator: Any, deadline: float) -> None:
    """The base function was traced with one step; only the candidate's count changes."""
    if model.steps_per_execution != 1:
        return
    steps = STEPS_PER_EXECUTION
    with _with(model, steps_per_execution=steps) as function:
        function(iterator)
    pair = (lambda: base(iterator), lambda: function(iterator))
    alternate(driver, "steps_per_execution", deadline, *pair, steps, k=steps)


def _jit(driver: Any, model: Any, base: Any, iterator: Any, deadline: float) -> None:
    with _with(model, jit_compile=True) as function:
        if not model.jit_compile:
            raise NotOffered("the model has layers that do not support XLA")
        pair = (lambda: base(iterator), lambda: function(iterator))
        alternate(driver, "jit_compile", deadline, *pair)


def _double_batch(driver: Any, model: Any, base: Any, iterator: Any, deadline: float) -> None:
    """The same step on two batches joined; its time is compared per sample."""
    import tensorflow as tf

    if isinstance(iterator, tf.distribute.DistributedIterator):
        raise NotOffered("not done under a distribution strategy")
    if not spare_memory.doubles():
        raise MemoryError("too little memory was left for twice the samples")
    batch = driver.batch
    doubled = tf.nest.map_structure(lambda leaf: tf.concat([leaf, leaf], 0), batch)
    spec = tf.nest.map_structure(_any_batch, iterator.element_spec)
    double = iter(batches.repeated([doubled], spec))
    single = iter(batches.repeated([batch], spec))
    driver.unclosed += [single, double]
    size = batches.leaves(batch)[0].shape[0]
    pair = (lambda: base(single), lambda: base(double))
    alternate(driver, "double_batch", deadline, *pair, per_candidate=2, batch_size=size)


def _any_batch(spec: Any) -> Any:
    import tensorflow as tf

    if not isinstance(spec, tf.TensorSpec) or spec.shape.rank in (None, 0):
        return spec
    return tf.TensorSpec([None, *spec.shape[1:]], spec.dtype)


def probe_eager_step(driver: Driver, deadline: float) -> None:
    """Time the user's eager step function against the same function compiled."""
    loops = driver.loops
    function = loops.tape.find_function()
    if function is None:
        reason = "the gradient tape does not stand in a function that is called once per step"
        driver.record.write("missing", what="probe compiled", reason=reason, applies=False)
        return
    import tensorflow as tf

    arguments = loops.tape.arguments or {}
    compiled = tf.function(function)
    pair = (lambda: function(**arguments), lambda: compiled(**arguments))
    alternate(driver, "compiled", deadline, *pair)


# A `tf.function` that the user's loop calls for each step: with XLA, with twice the batch.


def probe_compiled_step(driver: Driver, deadline: float) -> None:
    """Run the last call of the step's function again, against variations of it."""
    called = driver.loops.compiled_call
    if called is None:
        return
    probes: dict[str, tuple[int, Callable[..., None]]] = {
        "jit_compile": (XLA_TRACINGS, _jit_call),
        "double_batch": (1, _double_call),
    }
    for name, (tracings, run) in probes.items():
        takes = tracings * driver.loops.longest_trace
        _attempt(driver, name, deadline, takes, partial(run, driver, *called))


def _jit_call(
    driver: Driver, function: Any, again: Any, args: Any, kwargs: Any, deadline: float
) -> None:
    import tensorflow as tf

    if function._jit_compile:
        return
    compiled = tf.function(function.python_function, jit_compile=True)
    pair = (lambda: again(function, *args, **kwargs), lambda: compiled(*args, **kwargs))
    alternate(driver, "jit_compile", deadline, *pair)


def _double_call(
    driver: Driver, function: Any, again: Any, args: Any, kwargs: Any, deadline: float
) -> None:
    """The same call with each batch among its arguments joined to itself."""
    import tensorflow as tf

    if not spare_memory.doubles():
        raise MemoryError("too little memory was left for twice the samples")
    size = int(batches.leaves(driver.batch)[0].shape[0])

    def doubled(leaf: Any) -> Any:
        is_batch = isinstance(leaf, tf.Tensor) and leaf.shape.rank and leaf.shape[0] == size
        return tf.concat([leaf, leaf], 0) if is_batch else leaf

    more_args, more_kwargs = tf.nest.map_structure(doubled, (args, kwargs))
    before, after = tf.nest.flatten((args, kwargs)), tf.nest.flatten((more_args, more_kwargs))
    if all(one is other for one, other in zip(before, after, strict=True)):
        raise ValueError("no batch stands among the arguments of the step")
    pair = (
        lambda: again(function, *args, **kwargs),
        lambda: again(function, *more_args, **more_kwargs),
    )
    alternate(driver, "double_batch", deadline, *pair, per_candidate=2, batch_size=size)

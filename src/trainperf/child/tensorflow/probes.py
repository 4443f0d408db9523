"""Time a TensorFlow step against variations of it that real fixes would make.

Probes run when all else has been recorded: they go on training the model.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..timing.budget import Budget
from ..timing.completing import PROBES, lacks
from ..timing.probing import spare_memory
from ..timing.probing.alternating import CALLS, alternate
from . import batches

if TYPE_CHECKING:
    from ..timing.drivers.driver import Driver

XLA_TRACINGS = 3
"""Compiling a step with XLA takes about so many times as long as tracing it."""
TINY_STEP_S = 0.010
STEPS_PER_EXECUTION = 16


def record(driver: Driver, model: Any, deadline: float) -> None:
    """Run the probes that make sense for a Keras model, those of real fixes first."""
    iterator = driver.resident_iterator()
    if iterator is None or not hasattr(model, "_make_function"):
        reason = "there is no batch to replay" if iterator is None else "not offered for Keras 2"
        lacks(driver, PROBES, reason)
        return
    base = _function(model)
    tracing = driver.loops.longest_trace
    step = driver.plan.step_estimate()
    for name, run in of_fit(model, step).items():
        takes = (XLA_TRACINGS if name == "jit_compile" else 2) * tracing + CALLS * step
        if time.monotonic() + takes > deadline:
            reason = Budget.of(driver).lacking(takes, time.monotonic())
            driver.record.write("missing", what=f"probe {name}", reason=reason)
            continue
        try:
            run(driver, model, base, iterator, deadline)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"[:300]
            driver.record.write("missing", what=f"probe {name}", reason=reason)


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


def _with(model: Any, **settings: Any) -> Any:
    """A train function made with other settings of the model, which are put back."""
    before = {name: getattr(model, name) for name in settings}
    try:
        for name, value in settings.items():
            setattr(model, name, value)
        return model._make_function(model.train_step)
    finally:
        # The function reads some settings when it is traced, at its first call.
        model._trainperf_before = before


def _restore(model: Any) -> None:
    for name, value in getattr(model, "_trainperf_before", {}).items():
        setattr(model, name, value)


def _compiled(driver: Any, model: Any, base: Any, iterator: Any, deadline: float) -> None:
    try:
        function = _with(model, run_eagerly=False)
        alternate(
            driver,
            "compiled",
            deadline,
            base=lambda: base(iterator),
            candidate=lambda: function(iterator),
        )
    finally:
        _restore(model)


def _multi_step(driver: Any, model: Any, base: Any, iterator: Any, deadline: float) -> None:
    """The base function was traced with one step; only the candidate's count changes."""
    if model.steps_per_execution != 1:
        return
    try:
        function = _with(model, steps_per_execution=STEPS_PER_EXECUTION)
        function(iterator)
    finally:
        _restore(model)
    alternate(
        driver,
        "steps_per_execution",
        deadline,
        base=lambda: base(iterator),
        candidate=lambda: function(iterator),
        per_candidate=STEPS_PER_EXECUTION,
        k=STEPS_PER_EXECUTION,
    )


def _jit(driver: Any, model: Any, base: Any, iterator: Any, deadline: float) -> None:
    try:
        function = _with(model, jit_compile=True)
        if not model.jit_compile:
            raise ValueError("the model has layers that do not support XLA")
        alternate(
            driver,
            "jit_compile",
            deadline,
            base=lambda: base(iterator),
            candidate=lambda: function(iterator),
        )
    finally:
        _restore(model)


def _double_batch(driver: Any, model: Any, base: Any, iterator: Any, deadline: float) -> None:
    """The same step on two batches joined; its time is compared per sample."""
    import tensorflow as tf

    if isinstance(iterator, tf.distribute.DistributedIterator):
        raise TypeError("not done under a distribution strategy")
    if not spare_memory.doubles():
        raise MemoryError("too little memory was left for twice the samples")
    batch = driver.batch
    doubled = tf.nest.map_structure(lambda leaf: tf.concat([leaf, leaf], 0), batch)
    spec = tf.nest.map_structure(_any_batch, iterator.element_spec)
    double = _repeat(doubled, spec)
    single = _repeat(batch, spec)
    driver.unclosed += [single, double]
    alternate(
        driver,
        "double_batch",
        deadline,
        base=lambda: base(single),
        candidate=lambda: base(double),
        per_candidate=2,
        batch_size=batches.leaves(batch)[0].shape[0],
    )


def _repeat(batch: Any, spec: Any) -> Any:
    import tensorflow as tf
    from tensorflow.python.data.ops import dataset_ops

    dataset = tf.data.Dataset.from_tensors(batch).repeat()
    return iter(dataset_ops._RestructuredDataset(dataset, spec))


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
        driver.record.write("missing", what="probe compiled", reason=reason)
        return
    import tensorflow as tf

    arguments = loops.tape.arguments or {}
    compiled = tf.function(function)
    alternate(
        driver,
        "compiled",
        deadline,
        base=lambda: function(**arguments),
        candidate=lambda: compiled(**arguments),
    )

"""Time a `tf.function` that the user's loop calls for each step: with XLA, with twice the batch."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..timing.probing import spare_memory
from ..timing.probing.alternating import alternate
from . import batches

if TYPE_CHECKING:
    from ..timing.drivers.driver import Driver

XLA_TRACINGS = 3
"""Compiling a step with XLA takes about so many times as long as tracing it."""


def probe_compiled_step(driver: Driver, deadline: float) -> None:
    """Run the last call of the step's function again, against variations of it."""
    called = driver.loops.compiled_call
    if called is None:
        return
    probes: dict[str, tuple[int, Callable[..., None]]] = {
        "jit_compile": (XLA_TRACINGS, _jit),
        "double_batch": (1, _double_batch),
    }
    for name, (tracings, run) in probes.items():
        takes = tracings * driver.loops.longest_trace
        if time.monotonic() + takes > deadline:
            reason = f"tracing the step takes {takes / tracings:.1f} s, and too little was left"
            driver.record.write("missing", what=f"probe {name}", reason=reason)
            continue
        try:
            run(driver, deadline, *called)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"[:300]
            driver.record.write("missing", what=f"probe {name}", reason=reason)


def _jit(
    driver: Driver, deadline: float, function: Any, again: Any, args: Any, kwargs: Any
) -> None:
    import tensorflow as tf

    if function._jit_compile:
        return
    compiled = tf.function(function.python_function, jit_compile=True)
    alternate(
        driver,
        "jit_compile",
        deadline,
        base=lambda: again(function, *args, **kwargs),
        candidate=lambda: compiled(*args, **kwargs),
    )


def _double_batch(
    driver: Driver, deadline: float, function: Any, again: Any, args: Any, kwargs: Any
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
    alternate(
        driver,
        "double_batch",
        deadline,
        base=lambda: again(function, *args, **kwargs),
        candidate=lambda: again(function, *more_args, **more_kwargs),
        per_candidate=2,
        batch_size=size,
    )

"""Find the loss in what a step returns, and read its value; sums of weights in its place."""

from __future__ import annotations

import sys
from typing import Any

LONGEST = 1_000_000
"""Of a larger variable only so many elements are summed."""
DEEPEST = 4
"""In a structure nested deeper than this no loss is looked for."""

Path = tuple[Any, ...]
"""The keys and indices that lead to a value in a structure, from outside."""


def path_to_loss(value: Any, depth: int = 0) -> Path | None:
    """Where in a structure its loss is: what is called so, else the first float scalar."""
    if _is_scalar(value):
        return ()
    if depth == DEEPEST:
        return None
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: (name != "loss", "loss" not in str(name)))
    elif isinstance(value, (list, tuple)):
        names = list(range(len(value)))
    else:
        return None
    for name in names:
        rest = path_to_loss(value[name], depth + 1)
        if rest is not None:
            return (name, *rest)
    return None


def _is_scalar(value: Any) -> bool:
    values = getattr(value, "values", None)
    if isinstance(values, tuple) and values:  # one for each replica
        return _is_scalar(values[0])
    if isinstance(value, float):
        return True
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if dtype is None or shape is None or not hasattr(shape, "__len__"):
        return False
    floating = getattr(dtype, "is_floating", getattr(dtype, "kind", "") == "f")
    known = getattr(shape, "rank", 0) is not None
    return bool(floating and known and len(shape) == 0)


def is_eager(value: Any) -> bool:
    """Whether a value is a tensor of TensorFlow outside of any graph."""
    if "tensorflow" not in sys.modules:
        return False
    from tensorflow.python.framework.ops import EagerTensor

    return isinstance(value, EagerTensor)


def plain_loss(target: Any) -> Any:
    """The first of what a gradient is asked of; of PyTorch's without its graph, and unscaled.

    Nothing is computed, so that it may be asked for while a CUDA graph is captured.
    """
    while isinstance(target, (list, tuple)) and target:
        target = target[0]
    if hasattr(target, "detach"):
        unscaled = getattr(target, "_trainperf_unscaled", None)
        return target.detach() if unscaled is None else unscaled
    return target


def leaves(sources: Any) -> list[Any]:
    """The values in nested dicts, lists and tuples."""
    if isinstance(sources, dict):
        sources = list(sources.values())
    if isinstance(sources, (list, tuple)):
        return [leaf for one in sources for leaf in leaves(one)]
    return [sources]


def counter_of(model: Any) -> Any:
    """How many updates Keras has made, as a tensor that nobody has waited for."""
    import tensorflow as tf

    counter = getattr(model, "_train_counter", None)
    if counter is None:
        counter = getattr(getattr(model, "optimizer", None), "iterations", None)
    return None if counter is None else tf.convert_to_tensor(counter)


def number_of(value: Any) -> float:
    """A loss as a number, the mean of several; waits for the device."""
    values = getattr(value, "values", None)
    if isinstance(values, tuple):
        return sum(number_of(one) for one in values) / len(values)
    if hasattr(value, "detach"):
        return float(value.double().mean())
    if hasattr(value, "numpy"):
        value = value.numpy()
    if getattr(value, "ndim", 0):
        value = value.astype("float64").mean()
    return float(value)


def json_number(value: float) -> float | str:
    """As JSON has it: nine digits tell all float32 apart; NaN and infinity as text."""
    short = f"{value:.9g}"
    return short if short.lstrip("-") in ("nan", "inf") else float(short)


def absolute_sum(variables: list[Any]) -> float:
    """The sum of the absolute values of variables, of one framework; waits for the device."""
    if variables and hasattr(variables[0], "detach"):
        with sys.modules["torch"].no_grad():
            return sum(
                float(one.detach().reshape(-1)[:LONGEST].double().abs().sum()) for one in variables
            )
    import tensorflow as tf

    total = 0.0
    for variable in variables:
        flat = tf.reshape(tf.convert_to_tensor(variable), [-1])[:LONGEST]
        total += float(tf.reduce_sum(tf.abs(tf.cast(flat, tf.float64))))
    return total

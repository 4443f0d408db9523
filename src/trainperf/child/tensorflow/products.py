"""How fast a Keras model's own products are, beside one large product on the same device."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from ..timing.probing import alternate, large_product

HEAVY = re.compile(r"MatMul|Conv|Einsum|While|Call|RNN|LSTM|GRU|FFT|^If$")
"""Kinds of operations that multiply, or hold such: one that is not counted spoils the count."""


def matmul_rate(driver: Any, model: Any, step: Callable[[], Any], deadline: float) -> None:
    """A call of `step` against one large product in the model's type, with the operations of each.

    Raises `LookupError` where not all operations of a step are known.
    """
    import keras
    import tensorflow as tf

    if type(model).train_step is not keras.Model.train_step:
        raise LookupError("what a `train_step` of the script's own computes is not counted")
    flops = _operations(model, driver.batch) * int(model.steps_per_execution)
    dtype = tf.as_dtype(model.compute_dtype)

    def product_of(side: int) -> Callable[[], Any]:
        factor = tf.cast(tf.random.stateless_uniform((side, side), seed=(0, 0)), dtype)
        return lambda: tf.linalg.matmul(factor, factor)

    product, side = large_product(driver, product_of)
    detail = {"flops": flops, "product_flops": 2 * side**3, "dtype": dtype.name, "of": "each step"}
    alternate(driver, "matmul_rate", deadline, step, product, **detail, model=type(model).__name__)


def _operations(model: Any, batch: Any) -> int:
    """Multiplications and additions of forward and backward; `LookupError` if not all are known.

    A multiplication with its addition counts as two.
    """
    import tensorflow as tf

    inputs = batch[0] if isinstance(batch, tuple) else batch

    def passes(inputs: Any) -> Any:
        with tf.GradientTape() as tape:
            outputs = tf.nest.flatten(model(inputs, training=True))
            total = tf.add_n([tf.reduce_sum(tf.cast(output, tf.float32)) for output in outputs])
        return total, tape.gradient(total, model.trainable_variables)

    spec = tf.nest.map_structure(lambda leaf: tf.TensorSpec(leaf.shape, leaf.dtype), inputs)
    graph = tf.function(passes).get_concrete_function(spec).graph
    total = 0
    for operation in _needed(graph):
        if operation.type in PRODUCTS:
            total += 2 * PRODUCTS[operation.type](operation)
        elif HEAVY.search(operation.type):
            raise LookupError(f"the operations of {operation.type} are not counted")
    if not total:
        raise LookupError("the model multiplies no matrices")
    return total


def _needed(graph: Any) -> set[Any]:
    """The operations that the outputs rest on: others are there, and do not run."""
    needed: set[Any] = set()
    left = [output.op for output in graph.outputs]
    while left:
        operation = left.pop()
        if operation not in needed:
            needed.add(operation)
            left += [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]
    return needed


def _matmul(operation: Any) -> int:
    name = "transpose_a" if operation.type == "MatMul" else "adj_x"
    common = operation.inputs[0].shape[-2 if operation.get_attr(name) else -1]
    return _count(operation.outputs[0]) * int(common)


def _einsum(operation: Any) -> int:
    """All combinations of the letters of its equation."""
    subscripts = operation.get_attr("equation").decode().partition("->")[0].split(",")
    sizes: dict[str, int] = {}
    for letters, tensor in zip(subscripts, operation.inputs, strict=True):
        if len(letters) != len(tensor.shape):
            raise LookupError("the operations of an Einsum with `...` are not counted")
        sizes.update(zip(letters, map(int, tensor.shape), strict=True))
    return math.prod(sizes.values())


def _convolved(values: int | None, weights: int | None, across: bool) -> Callable[[Any], int]:
    """Each value of that input with each weight that meets it; None are outputs.

    The weights are (height, width, channels, …); `across` is whether channels are added up.
    """

    def count(operation: Any) -> int:
        shape = _tensor(operation, weights).shape
        return _count(_tensor(operation, values)) * math.prod(map(int, shape[: 3 if across else 2]))

    return count


def _tensor(operation: Any, index: int | None) -> Any:
    return operation.outputs[0] if index is None else operation.inputs[index]


def _count(tensor: Any) -> int:
    return math.prod(map(int, tensor.shape))


PRODUCTS: dict[str, Callable[[Any], int]] = {
    "MatMul": _matmul,
    "BatchMatMulV2": _matmul,
    "BatchMatMulV3": _matmul,
    "Einsum": _einsum,
    "Conv2D": _convolved(None, 1, True),
    "Conv2DBackpropInput": _convolved(2, 1, True),
    "Conv2DBackpropFilter": _convolved(2, None, True),
    "DepthwiseConv2dNative": _convolved(None, 1, False),
    "DepthwiseConv2dNativeBackpropInput": _convolved(2, 1, False),
    "DepthwiseConv2dNativeBackpropFilter": _convolved(2, None, False),
}
"""Products of an operation of a graph, by its type."""

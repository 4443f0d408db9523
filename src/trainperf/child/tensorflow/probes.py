"""Time a TensorFlow step against variations of it that real fixes would make.

Probes run when all else has been recorded: they go on training the model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..timing.probing import (
    CALLS,
    NotDone,
    NotOffered,
    alternate,
    attempt,
    doubles,
    large_product,
)
from . import batches

if TYPE_CHECKING:
    from ..timing.drivers.driver import Driver

XLA_TRACINGS = 3
"""Compiling a step with XLA takes about so many times as long as tracing it."""
TINY_STEP_S = 0.010
STEPS_PER_EXECUTION = 16

Probes = dict[str, Callable[[], None]]
"""What makes the steps of each probe in turn, the quick ones first."""


def record(driver: Any, model: Any, deadline: float) -> None:
    """Run the probes that make sense for a Keras model, those of real fixes first."""
    if driver.replayed is None:
        reason = "there is no batch to replay"
        driver.record.write("missing", what="probes", reason=reason, applies=False)
        return
    step_s = driver.plan.step_estimate()
    for name, probe in _of_fit(driver, model, step_s, deadline).items():
        _attempt(driver, name, probe, deadline, CALLS * step_s)


def _of_fit(driver: Any, model: Any, step_s: float, deadline: float) -> Probes:
    """The probes that make sense for a Keras model."""
    base, iterator = model.train_function.original, driver.replayed

    def step() -> Any:
        return base(iterator)

    def compiled() -> None:
        with _with(model, run_eagerly=False) as function:
            alternate(driver, "compiled", deadline, step, lambda: function(iterator))

    def several() -> None:
        """The base function was traced with one step; only the candidate's count changes."""
        count = STEPS_PER_EXECUTION
        with _with(model, steps_per_execution=count) as function:
            function(iterator)
        call = lambda: function(iterator)  # noqa: E731
        alternate(driver, "steps_per_execution", deadline, step, call, count, k=count)

    def jit() -> None:
        with _with(model, jit_compile=True) as function:
            if not model.jit_compile:
                raise NotOffered("the model has layers that do not support XLA")
            alternate(driver, "jit_compile", deadline, step, lambda: function(iterator))

    def double() -> None:
        """The same step on two batches joined; its time is compared per sample."""
        import tensorflow as tf

        _check_single(iterator)
        doubled = tf.nest.map_structure(lambda leaf: tf.concat([leaf, leaf], 0), driver.batch)
        spec = tf.nest.map_structure(_any_batch, iterator.element_spec)
        pair = [iter(batches.repeated([batch], spec)) for batch in (driver.batch, doubled)]
        driver.unclosed += pair
        _alternate_double(driver, deadline, lambda: base(pair[0]), lambda: base(pair[1]))

    def product() -> None:
        _check_single(iterator)
        matmul_rate(driver, model, step, deadline)

    if model.run_eagerly:
        return {"compiled": compiled}
    tiny = step_s < TINY_STEP_S and model.steps_per_execution == 1
    found: Probes = {"steps_per_execution": several} if tiny else {}
    found["double_batch"] = double
    if not model.jit_compile:
        found["jit_compile"] = jit
    return found | {"matmul_rate": product}


def _check_single(iterator: Any) -> None:
    import tensorflow as tf

    if isinstance(iterator, tf.distribute.DistributedIterator):
        raise NotOffered("not done under a distribution strategy")


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


def _any_batch(spec: Any) -> Any:
    import tensorflow as tf

    if not isinstance(spec, tf.TensorSpec) or spec.shape.rank in (None, 0):
        return spec
    return tf.TensorSpec([None, *spec.shape[1:]], spec.dtype)


# A step of a loop that the user wrote.


def record_own(driver: Driver, deadline: float) -> None:
    """Time an eager step against the same compiled, a compiled one with XLA and a double batch."""
    loops = driver.loops
    if loops.marked and loops.compiled_call is None:
        return
    seen: Any = loops.compiled_call or (None, None, (), {})
    function, original, args, kwargs = seen

    def call() -> Any:
        return original(function, *args, **kwargs)

    def compiled() -> None:
        import tensorflow as tf

        step, given = loops.tape.find_function(), loops.tape.arguments
        if step is None:
            raise NotOffered(
                "the gradient tape does not stand in a function that is called once per step"
            )
        candidate = tf.function(step)
        pair = (lambda: step(**given), lambda: candidate(**given))
        alternate(driver, "compiled", deadline, *pair)

    def jit() -> None:
        import tensorflow as tf

        candidate = tf.function(function.python_function, jit_compile=True)
        alternate(driver, "jit_compile", deadline, call, lambda: candidate(*args, **kwargs))

    def double() -> None:
        more_args, more_kwargs = _doubled(driver, (args, kwargs))
        candidate = lambda: original(function, *more_args, **more_kwargs)  # noqa: E731
        _alternate_double(driver, deadline, call, candidate)

    probes: Probes = {"compiled": compiled}
    if loops.marked:
        probes = {"double_batch": double}
        if not function._jit_compile:
            probes = {"jit_compile": jit, **probes}
    for name, probe in probes.items():
        _attempt(driver, name, probe, deadline)


def _doubled(driver: Driver, given: Any) -> Any:
    """The arguments of a call with each batch among them joined to itself."""
    import tensorflow as tf

    size, joined = int(batches.leaves(driver.batch)[0].shape[0]), 0

    def double(leaf: Any) -> Any:
        nonlocal joined
        if not isinstance(leaf, tf.Tensor) or not leaf.shape.rank or leaf.shape[0] != size:
            return leaf
        joined += 1
        return tf.concat([leaf, leaf], 0)

    made = tf.nest.map_structure(double, given)
    if not joined:
        raise ValueError("no batch stands among the arguments of the step")
    return made


# Of both.


def _attempt(
    driver: Driver, name: str, probe: Callable[[], None], deadline: float, calls_s: float = 0.0
) -> None:
    """Make a probe if there is time to trace its step and call it, and memory for its batch."""

    def made() -> None:
        if name == "double_batch" and not doubles():
            raise NotDone("too little memory was left for twice the samples")
        probe()

    tracings = XLA_TRACINGS if name == "jit_compile" else 2
    attempt(driver, name, made, deadline, tracings * driver.loops.longest_trace + calls_s)


def _alternate_double(
    driver: Driver, deadline: float, base: Callable[[], Any], double: Callable[[], Any]
) -> None:
    size = int(batches.leaves(driver.batch)[0].shape[0])
    alternate(driver, "double_batch", deadline, base, double, per_candidate=2, batch_size=size)


# How fast a Keras model's own products are, beside one large product on the same device.

HEAVY = re.compile(r"MatMul|Conv|Einsum|While|Call|RNN|LSTM|GRU|FFT|^If$")
"""Kinds of operations that multiply, or hold such: one that is not counted spoils the count."""


def matmul_rate(driver: Any, model: Any, step: Callable[[], Any], deadline: float) -> None:
    """A call of `step` against one large product in the model's type, with the operations of each.

    Raises `NotOffered` where not all operations of a step are known.
    """
    import keras
    import tensorflow as tf

    if type(model).train_step is not keras.Model.train_step:
        raise NotOffered("what a `train_step` of the script's own computes is not counted")
    flops = _operations(model, driver.batch) * int(model.steps_per_execution)
    dtype = tf.as_dtype(model.compute_dtype)

    def product_of(side: int) -> Callable[[], Any]:
        factor = tf.cast(tf.random.stateless_uniform((side, side), seed=(0, 0)), dtype)
        return lambda: tf.linalg.matmul(factor, factor)

    product, side = large_product(driver, product_of)
    detail = {"flops": flops, "product_flops": 2 * side**3, "dtype": dtype.name, "of": "each step"}
    alternate(driver, "matmul_rate", deadline, step, product, **detail, model=type(model).__name__)


def _operations(model: Any, batch: Any) -> int:
    """Multiplications and additions of forward and backward; `NotOffered` if not all are known.

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
            raise NotOffered(f"the operations of {operation.type} are not counted")
    if not total:
        raise NotOffered("the model multiplies no matrices")
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
            raise NotOffered("the operations of an Einsum with `...` are not counted")
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

"""Batches, iterators and datasets of TensorFlow: take, repeat, drain, measure."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

from ..process.process import Process, Unseen
from ..timing.loops import dataset_of, fresh, same_dataset

__all__ = ["dataset_of", "fresh", "same_dataset", "size_in_bytes", "undistributed"]

TAKE_S = 1.5
"""After so long no further batch is taken to be replayed."""


def is_iterator(value: Any) -> bool:
    """Whether it is one over a dataset, plain or distributed."""
    from tensorflow.python.data.ops.iterator_ops import OwnedIterator
    from tensorflow.python.distribute.input_lib import DistributedIteratorBase

    return isinstance(value, (OwnedIterator, DistributedIteratorBase))


def leaves(batch: Any) -> list[Any]:
    """The tensors of a batch, composite ones taken apart."""
    import tensorflow as tf

    return list(tf.nest.flatten(batch, expand_composites=True))


def size_in_bytes(batch: Any) -> int:
    """Bytes of all tensors of a batch; strings count by their handles."""
    total = 0
    for leaf in leaves(batch):
        shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
        if shape is not None and dtype is not None:
            size = getattr(dtype, "size", getattr(dtype, "itemsize", 1))
            total += math.prod(int(side) for side in shape if side is not None) * max(1, size)
    return total


def take(iterator: Any, most: int, most_bytes: int) -> list[Any]:
    """Take a few batches from an iterator, bounded in number, memory and time."""
    batches: list[Any] = []
    began, size = time.monotonic(), 0
    while len(batches) < most and (not batches or time.monotonic() - began < TAKE_S):
        try:
            batches.append(next(iterator))
        except StopIteration:
            break
        size += size_in_bytes(batches[-1])
        if size > most_bytes:
            break
    return batches


def repeating(iterator: Any, batches: list[Any]) -> Any:
    """An iterator that repeats `batches`, of the very type of `iterator`.

    The element spec must be equal, shape for shape, or the step would be traced
    again and might be another program.
    """
    import tensorflow as tf

    options = tf.data.Options()
    if not isinstance(iterator, tf.distribute.DistributedIterator):
        options.autotune.enabled = False
        return iter(repeated(batches, iterator.element_spec, options))
    strategy, dataset = iterator._strategy, dataset_of(iterator)  # batches are on replicas already
    whole = undistributed(dataset)
    if whole is None:
        raise TypeError("the distributed dataset does not say what it was made from")
    again = repeated(list(whole.take(len(batches))), whole.element_spec)
    if not hasattr(dataset, "_original_dataset"):  # a function made it, for this worker
        return iter(strategy.distribute_datasets_from_function(lambda _: again, dataset._options))
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return iter(strategy.experimental_distribute_dataset(again.with_options(options)))


def repeated(elements: list[Any], spec: Any, options: Any = None) -> Any:
    """A dataset that repeats elements for ever, with this very element spec."""
    import tensorflow as tf
    from tensorflow.python.data.ops import dataset_ops

    dataset: Any = None
    for element in elements:
        single = dataset_ops._RestructuredDataset(tf.data.Dataset.from_tensors(element), spec)
        dataset = single if dataset is None else dataset.concatenate(single)
    dataset = dataset.repeat() if options is None else dataset.repeat().with_options(options)
    return dataset_ops._RestructuredDataset(dataset, spec)


def undistributed(dataset: Any) -> Any:
    """The user's own `tf.data.Dataset` in a distributed one; None if it holds none.

    Where a function makes one dataset for each worker it is the first of this process.
    """
    if hasattr(dataset, "_original_dataset"):
        return dataset._original_dataset
    if hasattr(dataset, "_inputs"):  # a `zip` has `_datasets` as well
        return dataset
    made = getattr(dataset, "_datasets", None)
    return made[0] if made else None


def graph_pull(process: Process) -> Callable[[Any, int], int]:
    """A function that takes `count` batches from an iterator inside one graph.

    Falls back to eager calls for iterators that are no tf.data iterator. Returns
    how many batches came before the end.
    """
    import tensorflow as tf

    def pull_in_graph(iterator: Any, count: Any) -> Any:
        def more(taken: Any, going: Any) -> Any:
            return tf.logical_and(taken < count, going)

        def body(taken: Any, going: Any) -> Any:
            there = iterator.get_next_as_optional().has_value()
            return taken + tf.cast(there, tf.int32), there

        return tf.while_loop(more, body, (tf.constant(0), tf.constant(True)))[0]

    compiled = tf.function(pull_in_graph, autograph=False, reduce_retracing=True)

    def pull(iterator: Any, count: int) -> int:
        with Unseen(process):
            if not isinstance(iterator, tf.data.Iterator) or any(
                type(spec).__name__ == "OptionalSpec"
                for spec in tf.nest.flatten(iterator.element_spec)
            ):
                return sum(1 for _ in islice(iterator, count))
            return int(compiled(iterator, tf.constant(count)))

    return pull


ADAPTER_CALLS = ("fit", "error_handler", "train_on_batch", "_enumerate_iterator")
"""Calls within Keras that make stages of their own around what the user gave."""


def chain(dataset: Any) -> list[Any]:
    """The stages from the source to `dataset`, inputs before what uses them."""
    seen: dict[int, Any] = {}

    def visit(node: Any) -> None:
        for parent in node._inputs():
            visit(parent)
        seen.setdefault(id(node), node)

    visit(dataset)
    return list(seen.values())


def op_types(wrapper: Any) -> set[str]:
    """The kinds of operations in a stage's function, those of what it calls included."""
    definition = wrapper.function.graph.as_graph_def(add_shapes=False)
    types = {node.op for node in definition.node}
    for function in definition.library.function:
        types |= {node.op for node in function.node_def}
    return types

"""One call's sums over the replicas: tensors, their bytes, how they are packed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Tensor = tuple[tuple[int | None, ...], str, str]
"""Shape and dtype; of a sparse one the dtype of its rows' numbers as well, "" else."""


@dataclass(frozen=True)
class Reduction:
    """The tensors of one call that sums them over the replicas, as one replica gives them.

    `graph` tells the function it was traced in, 0 if it ran eagerly. A sparse tensor is
    rows of a larger one with their numbers, as embeddings have for gradients: it is
    gathered rather than summed. `joint` says that the tensors came as one batch, as
    gradients do, and not one by one, as what is assigned to variables. `packs` are bytes
    of what is sent at once, empty where the graph does not know all shapes.
    """

    graph: int
    tensors: tuple[Tensor, ...]
    sizes: tuple[int | None, ...]
    packs: tuple[int, ...]
    joint: bool

    @property
    def bytes(self) -> int | None:
        """Bytes of all tensors; None where the graph does not know a shape."""
        return sum(self.packs) if self.packs else None


def reduction(extended: Any, values: Any, options: Any, joint: bool) -> Reduction:
    """Look at what is handed to a strategy to be summed."""
    from tensorflow.python.eager import context
    from tensorflow.python.framework import ops
    from tensorflow.python.util import nest

    eager = context.executing_eagerly()
    tensors = tuple(_tensor(_here(value)) for value in nest.flatten(values))
    sizes = tuple(size_of(tensor) for tensor in tensors)
    known = [size for size in sizes if size is not None]
    dense = [size for size, (_, _, sparse) in zip(known, tensors, strict=False) if not sparse]
    gathered = [size for size, (_, _, sparse) in zip(known, tensors, strict=False) if sparse]
    sent = (*packs(extended, dense, options, eager), *gathered)
    return Reduction(
        graph=0 if eager else id(ops.get_default_graph()),
        tensors=tensors,
        sizes=sizes,
        packs=sent if len(known) == len(sizes) else (),
        joint=joint,
    )


def size_of(tensor: Tensor) -> int | None:
    """Bytes of a tensor, with the numbers of its rows if it is sparse; None if not known."""
    import tensorflow as tf

    shape, dtype, numbers = tensor
    count = 1
    for size in shape:
        if size is None:
            return None
        count *= size
    rows = (shape[0] or 0) * tf.dtypes.as_dtype(numbers).size if numbers and shape else 0
    return int(count * tf.dtypes.as_dtype(dtype).size + rows)


def _tensor(part: Any) -> Tensor:
    from tensorflow.python.framework import indexed_slices

    sparse = isinstance(part, indexed_slices.IndexedSlices)
    values = part.values if sparse else part
    known = values.shape.rank is not None
    shape = tuple(values.shape.as_list()) if known else (None,)
    return shape, values.dtype.name, part.indices.dtype.name if sparse else ""


def _here(value: Any) -> Any:
    """One replica's part of a value."""
    from tensorflow.python.distribute import values

    return value.values[0] if isinstance(value, values.DistributedValues) else value


def packs(extended: Any, sizes: list[int], options: Any, eager: bool) -> tuple[int, ...]:
    """Bytes of what is sent at once, as TensorFlow 2.21's `cross_device_ops` packs it.

    `CollectiveAllReduce` joins tensors in reverse order, each pack until it has more than
    `bytes_per_pack` (0: all in one); `NcclAllReduce` and `HierarchicalCopyAllReduce` make
    `num_packs` of about one size; `ReductionToOneDevice` sends each tensor by itself.
    """
    operations = extended._cross_device_ops
    kind = type(operations).__name__
    if kind == "CollectiveAllReduce" and not eager:
        given = extended._communication_options
        merged = given.merge(options) if options is not None else given
        if not merged.bytes_per_pack:
            return (sum(sizes),) if sizes else ()
        made: list[int] = []
        for size in reversed(sizes):
            if not made or made[-1] > merged.bytes_per_pack:
                made.append(0)
            made[-1] += size
        return tuple(made)
    count = int(getattr(operations, "_num_packs", 0))
    if count and len(sizes) >= count:
        return tuple([sum(sizes) // count] * count)
    return tuple(sizes)

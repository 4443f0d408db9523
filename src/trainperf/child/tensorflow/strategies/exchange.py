"""Run the user's step with and without the exchange between replicas.

All gradients pass through three methods of a strategy on their way from replica to
replica, whichever optimizer applies them: `_batch_reduce_to` (Keras's optimizers and
`ReplicaContext.all_reduce`), `_reduce_to` (variables that aggregate what is assigned to
them) and `_replica_ctx_all_reduce` (under XLA on GPUs). While the exchange is off, each
of them gives every replica its own value back. Nothing else of the step changes: the
same replicas, inputs, gradients and updates.

A compiled step has the exchange in its graph, and so have the functions it calls. So
the key under which TensorFlow keeps a function's graphs gets one part more while the
exchange is off: all functions that are called then, inner ones too, are traced once
more, and both graphs are kept. No function or model of the user's is replaced. The
replicas' weights differ from then on, which does not matter: the run is thrown away.

Sums that leave the replicas (a loss to report) stay in a job of one process. In a job of
several they would make the ranks wait for one another in each step, and are left out;
likewise while a rank drains its input alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...process.patching import replace
from ...process.process import Attempt
from ...timing.loop import INPUT

if TYPE_CHECKING:
    from ...timing.training import Training


NO_EXCHANGE = "no exchange of gradients between replicas was seen"
_MARK = "trainperf: without exchange"


class Exchange:
    """The exchange of gradients between the replicas of a strategy: `off()`, `on()`."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._process = training.process
        self._off = False
        self._keyed = False
        self._reductions: list[Reduction] = []
        self.drained = False
        """Whether the ranks took batches at their own pace, and stand at different ones."""

    # -------------------------------------------------------------- for the drivers

    def off(self) -> str:
        """Exchange nothing in the steps that follow; "" or the reason why it cannot be."""
        if not self.reductions():
            return NO_EXCHANGE
        if not self._keyed:
            return "this TensorFlow keeps the graphs of functions in another way"
        self._off = True
        return ""

    def on(self) -> None:
        self._off = False

    @property
    def is_off(self) -> bool:
        return self._off

    def reductions(self) -> list[Reduction]:
        """Those of the training step: of the function that was traced last with some.

        Gradients, if there are any; else the values that are assigned.
        """
        joint = [one for one in self._reductions if one.joint] or self._reductions
        return [one for one in joint if one.graph == joint[-1].graph]

    # ---------------------------------------------------------------- for the hooks

    def key_functions(self, module: Any) -> None:
        """Hook `make_function_context`: its answer is part of each graph's key."""

        def make(original: Any) -> Any:
            def make_function_context(*args: Any, **kwargs: Any) -> Any:
                found = original(*args, **kwargs)
                if not self._off:
                    return found
                inner = found.context
                return found._replace(
                    context=inner._replace(xla_context_id=(_MARK, inner.xla_context_id))
                )

            return make_function_context

        fields = getattr(module, "EagerContext", None)
        if "xla_context_id" in getattr(fields, "_fields", ()):
            replace(module, "make_function_context", make)
            self._keyed = True

    def watch(self, extended: Any) -> None:
        """Hook the methods of a strategy's class by which replicas exchange values."""
        for name, make in (
            ("_batch_reduce_to", self._make_batch_reduce_to),
            ("_reduce_to", self._make_reduce_to),
            ("_replica_ctx_all_reduce", self._make_all_reduce),
        ):
            if name in vars(extended):
                replace(extended, name, make)

    def _make_batch_reduce_to(self, original: Any) -> Any:
        def _batch_reduce_to(extended: Any, reduce_op: Any, pairs: Any, options: Any) -> Any:
            if self._off:
                return [_own(value) for value, _ in pairs]
            self._note(extended, [value for value, _ in pairs], options, joint=True)
            return original(extended, reduce_op, pairs, options)

        return _batch_reduce_to

    def _make_reduce_to(self, original: Any) -> Any:
        def _reduce_to(
            extended: Any, reduce_op: Any, value: Any, destinations: Any, options: Any
        ) -> Any:
            back = _on_replicas(value, destinations)
            if not (self._off or self._drains()):
                if back:
                    self._note(extended, [value], options, joint=False)
                return original(extended, reduce_op, value, destinations, options)
            if not back and not several_workers(extended):
                return original(extended, reduce_op, value, destinations, options)
            self.drained = self.drained or not self._off
            return _own(value) if back else _first(value, destinations)

        return _reduce_to

    def _make_all_reduce(self, original: Any) -> Any:
        def _replica_ctx_all_reduce(
            extended: Any, reduce_op: Any, value: Any, options: Any = None
        ) -> Any:
            if self._off:
                return value
            if not extended._use_merge_call():  # otherwise it comes to `_batch_reduce_to`
                self._note(extended, value, options, joint=True)
            return original(extended, reduce_op, value, options)

        return _replica_ctx_all_reduce

    # --------------------------------------------------------------------- internal

    def _drains(self) -> bool:
        driver = self._training.driver
        return driver is not None and driver.plan.phase == INPUT

    def _note(self, extended: Any, values: Any, options: Any, joint: bool) -> None:
        """Remember what is summed; steps that run eagerly are remembered once."""
        if self._process.off:
            return
        with Attempt(self._process, "sizes of the gradients"):
            made = reduction(extended, values, options, joint)
            if made.sizes and (made.graph or made not in self._reductions):
                self._reductions.append(made)


def own_graphs(function: Any) -> int:
    """How many graphs of a `tf.function` were traced while the exchange was off."""
    cache = getattr(function, "_function_cache", None)
    keys = [context.context for context, _ in list(getattr(cache, "_primary", ()))]
    return sum(_marked(getattr(key, "xla_context_id", None)) for key in keys)


def _marked(part: Any) -> bool:
    return isinstance(part, tuple) and part[0] == _MARK


def _own(value: Any) -> Any:
    """Each replica's own part, as a value that is the same on all of them."""
    from tensorflow.python.distribute import distribute_utils, values

    if not isinstance(value, values.DistributedValues):
        return value
    if isinstance(value, values.Mirrored):
        return value
    return distribute_utils.regroup(value.values, wrap_class=values.Mirrored)


def _first(value: Any, destinations: Any) -> Any:
    """The first local replica's part, on the devices that are asked for."""
    from tensorflow.python.distribute import cross_device_ops, values
    from tensorflow.python.util import nest

    def one(part: Any) -> Any:
        if isinstance(part, values.Mirrored):
            return part
        if isinstance(part, values.DistributedValues):
            part = part.values[0]
        return cross_device_ops.simple_broadcast(part, destinations)

    return nest.map_structure(one, value)


def _on_replicas(value: Any, destinations: Any) -> bool:
    """Whether a sum goes back to where its parts come from."""
    from tensorflow.python.distribute import cross_device_ops, values

    if not isinstance(value, values.DistributedValues):
        return False
    return bool(cross_device_ops._devices_match(value, destinations))


def several_workers(extended: Any) -> bool:
    return int(getattr(extended, "_num_workers", 1)) > 1


# One call's sums over the replicas: tensors, their bytes, how they are packed.


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

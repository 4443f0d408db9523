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

from ..process.patching import around
from ..process.process import Attempt
from ..timing.loop import INPUT

if TYPE_CHECKING:
    from ..timing.training import Training


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
        self._keyed = "xla_context_id" in getattr(module.EagerContext, "_fields", ())
        if not self._keyed:
            return

        @around(None, module, "make_function_context")
        def key(original: Any, *args: Any, **kwargs: Any) -> Any:
            found = original(*args, **kwargs)
            if not self._off:
                return found
            inner = found.context
            marked = inner._replace(xla_context_id=(_MARK, inner.xla_context_id))
            return found._replace(context=marked)

    def watch(self, extended: Any) -> None:
        """Hook the methods of a strategy's class by which replicas exchange values."""
        for name, act in (
            ("_batch_reduce_to", self._reduce_batch),
            ("_reduce_to", self._reduce),
            ("_replica_ctx_all_reduce", self._reduce_under_xla),
        ):
            if name in vars(extended):
                around(None, extended, name)(act)

    # --------------------------------------------------------------------- internal

    def _reduce_batch(self, original: Any, owner: Any, op: Any, pairs: Any, options: Any) -> Any:
        values = [value for value, _ in pairs]
        if self._off:
            return [_own(value) for value in values]
        self._note(values, joint=True)
        return original(owner, op, pairs, options)

    def _reduce(
        self, original: Any, owner: Any, op: Any, value: Any, destinations: Any, options: Any
    ) -> Any:
        back = _on_replicas(value, destinations)
        driver = self._training.driver
        drains = driver is not None and driver.plan.phase == INPUT
        if (self._off or drains) and (back or several_workers(owner)):
            self.drained = self.drained or not self._off
            return _own(value) if back else _first(value, destinations)
        if back:
            self._note([value], joint=False)
        return original(owner, op, value, destinations, options)

    def _reduce_under_xla(
        self, original: Any, owner: Any, op: Any, value: Any, options: Any = None
    ) -> Any:
        if self._off:
            return value
        if not owner._use_merge_call():  # otherwise it comes to `_batch_reduce_to`
            self._note(value, joint=True)
        return original(owner, op, value, options)

    def _note(self, values: Any, joint: bool) -> None:
        """Remember what is summed; steps that run eagerly are remembered once."""
        if self._process.off:
            return
        with Attempt(self._process, "sizes of the gradients"):
            made = reduction(values, joint)
            if made.sizes and (made.graph or made not in self._reductions):
                self._reductions.append(made)


def _own(value: Any) -> Any:
    """Each replica's own part, as a value that is the same on all of them."""
    from tensorflow.python.distribute import distribute_utils, values

    if not isinstance(value, values.DistributedValues) or isinstance(value, values.Mirrored):
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


# One call's sums over the replicas.


@dataclass(frozen=True)
class Reduction:
    """The tensors of one call that sums them over the replicas, by their bytes in one replica.

    A size is None where the graph does not know the shape. `graph` tells the function it was
    traced in, 0 if it ran eagerly. `joint` says that the tensors came as one batch, as gradients
    do, and not one by one, as what is assigned to variables.
    """

    graph: int
    sizes: tuple[int | None, ...]
    joint: bool

    @property
    def bytes(self) -> int | None:
        """Bytes of all tensors; None where the graph does not know a shape."""
        known = [size for size in self.sizes if size is not None]
        return sum(known) if len(known) == len(self.sizes) else None


def reduction(values: Any, joint: bool) -> Reduction:
    """Look at what is handed to a strategy to be summed."""
    from tensorflow.python.eager import context
    from tensorflow.python.framework import ops
    from tensorflow.python.util import nest

    graph = 0 if context.executing_eagerly() else id(ops.get_default_graph())
    return Reduction(graph, tuple(map(_size, nest.flatten(values))), joint)


def _size(value: Any) -> int | None:
    """Bytes of one replica's part; of a sparse one the numbers of its rows count as well."""
    from tensorflow.python.distribute.values import DistributedValues
    from tensorflow.python.framework.indexed_slices import IndexedSlices

    part = value.values[0] if isinstance(value, DistributedValues) else value
    parts = [part.values, part.indices] if isinstance(part, IndexedSlices) else [part]
    counts = [one.shape.num_elements() for one in parts]
    if None in counts:
        return None
    sizes = (count * one.dtype.size for count, one in zip(counts, parts, strict=True))
    return int(sum(sizes))

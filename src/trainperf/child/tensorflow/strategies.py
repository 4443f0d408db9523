"""A script's use of `tf.distribute`: its strategies, what they exchange, what they spread."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..process import frames
from ..process.patching import after, around
from ..process.process import Attempt, Process
from .batches import ADAPTER_CALLS, chain, undistributed

if TYPE_CHECKING:
    from ..timing.drivers.driver import Driver

_MARK = "trainperf: without exchange"


class Sum(NamedTuple):
    """A call that sums tensors over the replicas, by their bytes in one replica.

    They are None where the graph does not know a shape. `graph` tells the function it was
    traced in, 0 if it ran eagerly. `joint` says that the tensors came as one batch, as gradients
    do, and not one by one, as what is assigned to variables.
    """

    graph: int
    joint: bool
    bytes: int | None


class Exchange:
    """The exchange of gradients between the replicas of a strategy: `off()`, `on()`.

    All gradients pass through three methods of a strategy, whichever optimizer applies them:
    `_batch_reduce_to`, `_reduce_to` for variables that aggregate what is assigned to them, and
    `_replica_ctx_all_reduce` under XLA. While the exchange is off, they give every replica its own
    value back; nothing else of the step changes. Sums that leave the replicas (a loss to report)
    stay, but in a job of several processes: there they would make the ranks wait for one another.

    A compiled step has the exchange in its graph, and so have the functions it calls. So the key
    under which TensorFlow keeps a function's graphs gets one part more while the exchange is off:
    all functions that are called then are traced once more, and both graphs are kept. The
    replicas' weights differ from then on, which does not matter: the run is thrown away.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._sums: list[Sum] = []
        self.is_off = False

    def off(self) -> str:
        """Exchange nothing in the steps that follow; "" or the reason why it cannot be."""
        self.is_off = bool(self.sums())
        return "" if self.is_off else "no exchange of gradients between replicas was seen"

    def on(self) -> None:
        self.is_off = False

    def sums(self) -> list[Sum]:
        """Those of the function that was traced last with some: of gradients, if there are any."""
        joint = [made for made in self._sums if made.joint] or self._sums
        return [made for made in joint if made.graph == joint[-1].graph]

    def note(self, values: list[Any], joint: bool) -> None:
        """Remember what is summed; steps that run eagerly are remembered once."""
        if self._process.off or not values:
            return
        with Attempt(self._process, "sizes of the gradients"):
            from tensorflow.python.eager import context
            from tensorflow.python.framework import ops

            graph = 0 if context.executing_eagerly() else id(ops.get_default_graph())
            made = Sum(graph, joint, _whole(map(_size, values)))
            if graph or made not in self._sums:
                self._sums.append(made)


def key_functions(loops: Any, module: Any) -> None:
    """Hook `make_function_context`: its answer is part of each graph's key."""
    exchange = loops.strategies.exchange

    @around(loops.process, module, "make_function_context", ours=True)
    def key(original: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(*args, **kwargs)
        if not exchange.is_off:
            return found
        marked = found.context._replace(xla_context_id=(_MARK, found.context.xla_context_id))
        return found._replace(context=marked)


def watch_sums(loops: Any, extended: Any) -> None:
    """Hook the methods of a strategy's class by which replicas exchange values."""
    from tensorflow.python.distribute import cross_device_ops

    exchange = loops.strategies.exchange

    @around(loops.process, extended, "_batch_reduce_to", ours=True)
    def reduce_batch(original: Any, owner: Any, op: Any, pairs: Any, options: Any) -> Any:
        values = [value for value, _ in pairs]
        if exchange.is_off:
            return [_own(value) for value in values]
        exchange.note(values, joint=True)
        return original(owner, op, pairs, options)

    @around(loops.process, extended, "_reduce_to", ours=True)
    def reduce(original: Any, owner: Any, op: Any, value: Any, to: Any, options: Any) -> Any:
        back = _is_distributed(value) and cross_device_ops._devices_match(value, to)
        if exchange.is_off and (back or several_workers(owner)):
            return _own(value) if back else _first(value, to)
        if back:
            exchange.note([value], joint=False)
        return original(owner, op, value, to, options)

    if "_replica_ctx_all_reduce" in vars(extended):

        @around(loops.process, extended, "_replica_ctx_all_reduce", ours=True)
        def reduce_under_xla(
            original: Any, owner: Any, op: Any, value: Any, options: Any = None
        ) -> Any:
            if exchange.is_off:
                return value
            if not owner._use_merge_call():  # else it comes to `_batch_reduce_to`
                exchange.note(value if isinstance(value, list) else [value], joint=True)
            return original(owner, op, value, options)


def _is_distributed(value: Any) -> bool:
    from tensorflow.python.distribute.values import DistributedValues

    return isinstance(value, DistributedValues)


def _own(value: Any) -> Any:
    """Each replica's own part, as a value that is the same on all of them."""
    from tensorflow.python.distribute import distribute_utils, values

    if not _is_distributed(value) or isinstance(value, values.Mirrored):
        return value
    return distribute_utils.regroup(value.values, wrap_class=values.Mirrored)


def _first(value: Any, destinations: Any) -> Any:
    """The first local replica's part, on the devices that are asked for."""
    from tensorflow.python.distribute import cross_device_ops, values
    from tensorflow.python.util import nest

    def on_device(part: Any) -> Any:
        if isinstance(part, values.Mirrored):
            return part
        part = part.values[0] if _is_distributed(part) else part
        return cross_device_ops.simple_broadcast(part, destinations)

    return nest.map_structure(on_device, value)


def _size(value: Any) -> int | None:
    """Bytes of one replica's part; of a sparse one the numbers of its rows count as well."""
    part = value.values[0] if _is_distributed(value) else value
    parts = [part.values, part.indices] if hasattr(part, "indices") else [part]
    counts = [tensor.shape.num_elements() for tensor in parts]
    return _whole(
        None if count is None else count * int(tensor.dtype.size)
        for count, tensor in zip(counts, parts, strict=True)
    )


def _whole(sizes: Iterable[int | None]) -> int | None:
    """The sum; None where one is not known."""
    known = list(sizes)
    return None if None in known else sum(size for size in known if size is not None)


# Strategies, and models outside of their scopes.

OUTSIDE = 20
"""So many models outside of a scope are kept."""
INNER_CALLS = ("fit", "evaluate", "predict", "train_on_batch", "build", "__call__", "summary")
"""Keras builds inner models in these: the user built none there."""
NAMES = {
    "CollectiveAllReduceStrategy": "MultiWorkerMirroredStrategy",
    "ParameterServerStrategyV2": "ParameterServerStrategy",
}


class Strategies:
    """The strategies of a process, in the order they were built, and what they exchange.

    `built` has each with the place where the user built it.
    """

    def __init__(self, process: Process) -> None:
        self.process = process
        self.exchange = Exchange(process)
        self.built: list[tuple[Any, dict[str, Any]]] = []
        self._outside: weakref.WeakKeyDictionary[Any, dict[str, Any] | None]
        self._outside = weakref.WeakKeyDictionary()

    def made(self, strategy: Any, *_: Any) -> None:
        if type(strategy).__name__.startswith("_Default"):
            return
        where = frames.here(skip_self=strategy)
        if where is None or any(known is strategy for known, _ in self.built):
            return
        self.built.append((strategy, where))
        self.process.record.write("tf_strategy", **self._described(strategy, where))
        self.process.record.flush()

    def model(self, model: Any, *_: Any, **__: Any) -> None:
        """A model is built: outside of a scope, perhaps."""
        import tensorflow as tf

        known = model in self._outside or len(self._outside) >= OUTSIDE
        if not known and not tf.distribute.has_strategy():
            frame, called = frames.users_frame(skip_self=model)
            if called not in INNER_CALLS:
                self._outside[model] = frames.site(frame)

    def record(self, driver: Driver) -> None:
        """Record the strategy that trains, how it spreads the loop's dataset, what it exchanges."""
        if not self.built:
            return
        iterator, model = getattr(driver, "_source", None), getattr(driver, "model", None)
        used = getattr(iterator, "_strategy", None) or getattr(model, "distribute_strategy", None)
        strategy, where = next((made for made in self.built if made[0] is used), self.built[-1])
        described = self._described(strategy, where)
        with Attempt(self.process, "spreading of the dataset"):
            described |= _spread(driver.dataset())
        driver.record.write("tf_strategy", **described)
        sums = self.exchange.sums()
        if described["replicas"] < 2 or not sums:
            return
        driver.record.write(
            "exchange",
            method=described["cls"],
            backend=described["cross_device_ops"],
            replicas=described["replicas"],
            bytes=_whole(made.bytes for made in sums),
        )
        reason = "not timed under a strategy of TensorFlow's"
        driver.record.write("missing", what="all_reduce", reason=reason)

    def world(self) -> dict[str, Any] | None:
        """This process's place among the workers of a strategy; None if there are no others."""
        for strategy, _ in reversed(self.built):
            extended = strategy.extended
            if not several_workers(extended) or not hasattr(extended, "_id_in_cluster"):
                continue
            rank, size = int(extended._id_in_cluster), int(extended._num_workers)
            on_gpus = any("GPU" in device for device in _devices(extended))
            backend = _implementation(extended) if on_gpus else "gRPC"
            return {"rank": rank, "world_size": size, "backend": backend}
        return None

    def _described(self, strategy: Any, where: dict[str, Any]) -> dict[str, Any]:
        """A strategy as the event `tf_strategy` has it."""
        extended, kind = strategy.extended, type(strategy).__name__.removesuffix("V1")
        sites = {str(site): site for site in self._outside.values() if site is not None}
        operations = type(getattr(extended, "_cross_device_ops", None)).__name__
        if operations == "CollectiveAllReduce":
            operations += f" ({_implementation(extended)})"
        return {
            "cls": NAMES.get(kind, kind),
            "where": where,
            "replicas": replicas(strategy),
            "workers": int(getattr(extended, "_num_workers", 1)),
            "devices": _devices(extended),
            "cross_device_ops": "" if operations == "NoneType" else operations,
            "models_outside": list(sites.values()),
        }


def watch_mirrored(loops: Any, module: Any) -> None:
    """See strategies of several devices being built, what they exchange, what each replica does."""
    strategies = loops.strategies
    watch_sums(loops, module.MirroredExtended)

    @around(loops.process, module.MirroredStrategy, "__init__", ours=True)
    def build(original: Any, made: Any, devices: Any = None, cross_device_ops: Any = None) -> None:
        most = strategies.process.settings.get("devices")
        if most is not None:  # fewer are asked for
            devices = list(devices or module.all_local_devices())[:most]
        original(made, devices=devices, cross_device_ops=cross_device_ops)

    @around(loops.process, module.MirroredExtended, "_call_for_each_replica", ours=True)
    def run(original: Any, *args: Any, **kwargs: Any) -> Any:
        if loops.passive():
            return original(*args, **kwargs)
        return loops.run_replicas(lambda: original(*args, **kwargs))


def watch_jobs(loops: Any, module: Any) -> None:
    """See what strategies of several processes exchange."""
    watch_sums(loops, module.CollectiveAllReduceExtended)


def watch_strategies(loops: Any, module: Any) -> None:
    """See strategies being built."""
    after(loops.process, module.StrategyBase, "__init__", "a strategy", loops.strategies.made)


def several_workers(extended: Any) -> bool:
    return int(getattr(extended, "_num_workers", 1)) > 1


def replicas(strategy: Any) -> int:
    """Model copies of a strategy over all its workers; 1 where it does not say."""
    try:
        return int(strategy.num_replicas_in_sync)
    except Exception:  # a parameter server's needs its coordinator
        return 1


def _devices(extended: Any) -> list[str]:
    """The devices of a worker's replicas; none where the strategy does not say."""
    try:
        return [str(device) for device in extended.worker_devices]
    except Exception:
        return []


def _implementation(extended: Any) -> str:
    """How collectives communicate: AUTO is NCCL where all devices are GPUs, and a ring else."""
    options = getattr(extended, "_communication_options", None)
    asked = getattr(getattr(options, "implementation", None), "value", "AUTO")
    on_gpus = all("GPU" in device for device in _devices(extended))
    return "NCCL" if on_gpus and asked != "RING" else "RING"


def _spread(dataset: Any) -> dict[str, Any]:
    """How the loop's dataset is spread over workers and replicas, and where it was made."""
    if dataset is None:
        return {}
    from tensorflow.python.distribute import input_lib

    kinds = (input_lib.DistributedDataset, input_lib.DistributedDatasetsFromFunction)
    found: dict[str, Any] = {"distributed": isinstance(dataset, kinds)}
    plain = undistributed(dataset)
    for node in [] if plain is None else chain(plain):
        site = getattr(node, "_trainperf_site", None)
        if site and node._trainperf_call not in ADAPTER_CALLS:
            found["dataset_where"] = site
    return found

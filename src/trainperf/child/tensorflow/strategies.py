"""A script's use of `tf.distribute`: strategies, their scopes, what stands outside."""

from __future__ import annotations

import sys
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..process import frames
from ..process.patching import after, around
from ..process.process import Attempt, Process
from .batches import ADAPTER_CALLS, chain, undistributed
from .exchange import Exchange, several_workers

if TYPE_CHECKING:
    from ..timing.drivers.driver import Driver

OUTSIDE = 20
"""So many places outside of a scope are kept."""
INNER_CALLS = ("fit", "evaluate", "predict", "train_on_batch", "build", "__call__", "summary")
"""Keras builds inner models in these: the user built none there."""


@dataclass
class Strategies:
    """The strategies of a process, in the order they were built; what they exchange."""

    process: Process
    exchange: Exchange
    built: list[Built] = field(default_factory=list)
    models: weakref.WeakKeyDictionary[Any, dict[str, Any] | None] = field(
        default_factory=weakref.WeakKeyDictionary
    )
    variables: list[dict[str, Any]] = field(default_factory=list)

    def main(self, strategy: Any = None) -> Built | None:
        """The strategy that trains: the one given, or the one that was built last."""
        for one in reversed(self.built):
            if strategy is None or one.strategy is strategy:
                return one
        return self.built[-1] if self.built else None

    # -------------------------------------------------------------- from the hooks

    def made(self, strategy: Any) -> None:
        if type(strategy).__name__.startswith("_Default"):
            return
        where = frames.here(skip_self=strategy)
        if where is None or any(one.strategy is strategy for one in self.built):
            return
        self.built.append(Built(strategy, where))
        self.write()

    def model(self, model: Any) -> None:
        if model in self.models or len(self.models) >= OUTSIDE:
            return
        if not _outside_scope():
            return
        frame, called = frames.users_frame(skip_self=model)
        if called not in INNER_CALLS:
            self.models[model] = frames.site(frame)

    def variable(self, variable: Any) -> None:
        """A variable was made; those by which a model is made by hand are looked at."""
        if not self.built or len(self.variables) >= OUTSIDE:
            return
        shape = variable.shape
        if not (variable.trainable and variable.dtype.is_floating and shape.rank):
            return
        if _outside_scope() and (site := _own_variable()) is not None:
            self.variables.append(site)

    def write(self, **seen: Any) -> None:
        """Record the strategy that trains; `seen` is what is known of it by now."""
        main = self.main(seen.pop("strategy", None))
        if main is None:
            return
        with Attempt(self.process, "describing a strategy"):
            sites = [site for site in self.models.values() if site is not None]
            unique = {str(site): site for site in [*sites, *self.variables]}
            seen["models_outside"] = list(unique.values())[:OUTSIDE]
            self.process.record.write("tf_strategy", **described(main), **seen)
            self.process.record.flush()


def _outside_scope() -> bool:
    import tensorflow as tf

    return not tf.distribute.has_strategy()


def _own_variable() -> dict[str, Any] | None:
    """Where the user calls `tf.Variable`; None where Keras makes one for its own use."""
    frame = sys._getframe(1)
    while frame is not None and not frames.is_users(frame.f_code.co_filename):
        if "keras" in frame.f_code.co_filename:
            return None
        frame = frame.f_back  # type: ignore[assignment]
    return frames.site(frame)


def world(strategies: Strategies) -> dict[str, Any] | None:
    """This process's place among the workers of a strategy; None if there are no others.

    `local_rank` counts the workers that the cluster names on the same host.
    """
    for built in reversed(strategies.built):
        extended = built.strategy.extended
        if not several_workers(extended) or not hasattr(extended, "_id_in_cluster"):
            continue
        rank, size = int(extended._id_in_cluster), int(extended._num_workers)
        gpus = any("GPU" in str(device).upper() for device in devices(extended))
        hosts = worker_hosts(extended)
        place: dict[str, Any] = {
            "rank": rank,
            "world_size": size,
            "backend": implementation(extended) if gpus else "gRPC",
            "launcher": "TF_CONFIG",
        }
        if len(hosts) == size:
            place["local_rank"] = hosts[:rank].count(hosts[rank])
        return place
    return None


# What is seen of strategies.


def watch_mirrored(loops: Any, module: Any) -> None:
    """See strategies of several devices being built, what they exchange, what each replica does."""
    strategies = loops.strategies
    strategies.exchange.watch(module.MirroredExtended)

    @around(None, module.MirroredStrategy, "__init__")
    def build(original: Any, made: Any, devices: Any = None, cross_device_ops: Any = None) -> None:
        most = strategies.process.settings.get("devices")
        if most is not None:  # fewer are asked for
            devices = list(devices or module.all_local_devices())[:most]
        original(made, devices=devices, cross_device_ops=cross_device_ops)

    @around(None, module.MirroredExtended, "_call_for_each_replica")
    def run(original: Any, *args: Any, **kwargs: Any) -> Any:
        if loops.passive():
            return original(*args, **kwargs)
        return loops.replicas.ran(lambda: original(*args, **kwargs))


def watch_jobs(loops: Any, module: Any) -> None:
    """See what strategies of several processes exchange."""
    loops.strategies.exchange.watch(module.CollectiveAllReduceExtended)


def watch_strategies(loops: Any, module: Any) -> None:
    """See strategies being built."""

    def made(strategy: Any, extended: Any) -> None:
        loops.strategies.made(strategy)

    after(loops.process, module.StrategyBase, "__init__", "a strategy", made)


def record(driver: Driver) -> None:
    """Record how gradients are exchanged, and what is known of the strategy by now."""
    strategies = driver.loops.strategies
    iterator, model = getattr(driver, "_source", None), getattr(driver, "model", None)
    used = getattr(iterator, "_strategy", None) or getattr(model, "distribute_strategy", None)
    built = strategies.main(used)
    if built is None:
        return
    seen: dict[str, Any] = {}
    with Attempt(driver.process, "spreading of the dataset"):
        seen = spread(driver.dataset())
    strategies.write(strategy=built.strategy, **seen)
    reductions = strategies.exchange.reductions()
    if replicas(built.strategy) < 2 or not reductions:
        return
    sizes = [one.bytes for one in reductions]
    driver.record.write(
        "exchange",
        method=described(built)["cls"],
        backend=operations(built.strategy.extended),
        replicas=replicas(built.strategy),
        bytes=None if None in sizes else sum(sizes),
    )
    reason = "not timed under a strategy of TensorFlow's"
    driver.record.write("missing", what="all_reduce", reason=reason)


# A strategy's own word: replicas, workers, how they communicate.

NAMES = {
    "CollectiveAllReduceStrategy": "MultiWorkerMirroredStrategy",
    "CollectiveAllReduceStrategyV1": "MultiWorkerMirroredStrategy",
    "MirroredStrategyV1": "MirroredStrategy",
    "ParameterServerStrategyV2": "ParameterServerStrategy",
}


@dataclass
class Built:
    """A strategy of the user's, and where it was built."""

    strategy: Any
    where: dict[str, Any] | None


def replicas(strategy: Any) -> int:
    """Model copies of a strategy over all its workers; 1 where it does not say."""
    try:
        return int(strategy.num_replicas_in_sync)
    except Exception:  # a parameter server's needs its coordinator
        return 1


def described(built: Built) -> dict[str, Any]:
    """A strategy as the event `tf_strategy` has it."""
    strategy = built.strategy
    extended = strategy.extended
    kind = type(strategy).__name__
    return {
        "cls": NAMES.get(kind, kind),
        "where": built.where,
        "replicas": replicas(strategy),
        "workers": int(getattr(extended, "_num_workers", 1)),
        "devices": [str(device) for device in devices(extended)],
        "cross_device_ops": operations(extended),
    }


def devices(extended: Any) -> tuple[Any, ...]:
    """The devices of a worker's replicas; none where the strategy does not say."""
    try:
        return tuple(extended.worker_devices)
    except Exception:
        return ()


def operations(extended: Any) -> str:
    """The operation that sums over the replicas: `NcclAllReduce`, `CollectiveAllReduce (RING)`.

    The implementation of collectives is the one TensorFlow takes: AUTO is NCCL where all
    devices are GPUs, and a ring else.
    """
    found = getattr(extended, "_cross_device_ops", None)
    if found is None:
        return ""
    name = type(found).__name__
    return f"{name} ({implementation(extended)})" if name == "CollectiveAllReduce" else name


def implementation(extended: Any) -> str:
    """How collectives communicate: "NCCL" or "RING"."""
    options = getattr(extended, "_communication_options", None)
    asked = getattr(getattr(options, "implementation", None), "value", "AUTO")
    gpus = all("GPU" in str(device).upper() for device in devices(extended))
    if asked == "RING" or not gpus:
        return "RING"
    return "NCCL"


def worker_hosts(extended: Any) -> list[str]:
    """The host of each worker, in the order of their ranks, as the cluster names them."""
    spec = getattr(extended, "_cluster_spec", None)
    if spec is None:
        return []
    jobs = spec.as_dict() if hasattr(spec, "as_dict") else {}
    tasks = [address for job in ("chief", "worker") for address in jobs.get(job, ())]
    return [str(address).rpartition(":")[0] for address in tasks]


# How the loop's dataset is spread over workers and replicas, and where it was made.

BATCH_CALLS = ("batch", "padded_batch", "ragged_batch")


def spread(dataset: Any) -> dict[str, Any]:
    """A loop's dataset as the event `tf_strategy` has it; nothing if there is none."""
    if dataset is None:
        return {}
    from tensorflow.python.distribute import input_lib

    kinds = (input_lib.DistributedDataset, input_lib.DistributedDatasetsFromFunction)
    found: dict[str, Any] = {"distributed": isinstance(dataset, kinds)}
    plain = undistributed(dataset)
    if plain is not None:
        nodes = chain(plain)
        found |= {
            "dataset_where": _last_site(nodes, ()),
            "batch_where": _last_site(nodes, BATCH_CALLS),
        }
    return found


def _last_site(nodes: list[Any], calls: tuple[str, ...]) -> dict[str, Any] | None:
    """The user's call that made the last stage, or the last of some kinds of stages."""
    for node in reversed(nodes):
        site: dict[str, Any] | None = getattr(node, "_trainperf_site", None)
        call = getattr(node, "_trainperf_call", "")
        if site is not None and call not in ADAPTER_CALLS and (not calls or call in calls):
            return site
    return None

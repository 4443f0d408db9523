"""A script's use of `tf.distribute`: strategies, their scopes, what stands outside."""

from __future__ import annotations

import sys
import weakref
from dataclasses import dataclass, field
from typing import Any

from ...process import frames
from ...process.patching import after, before, replace
from ...process.process import Attempt, Process
from .exchange import Exchange, several_workers
from .facts import Built, described, devices, implementation, replicas, worker_hosts

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

    def trains_replicas(self) -> bool:
        """Whether a strategy puts more than one replica to work."""
        return any(replicas(one.strategy) > 1 for one in self.built)

    def outside(self) -> list[dict[str, Any]]:
        """Places where models or variables were made outside of any strategy's scope."""
        sites = [site for site in self.models.values() if site is not None]
        unique = {str(site): site for site in [*sites, *self.variables]}
        return list(unique.values())[:OUTSIDE]

    # -------------------------------------------------------------- from the hooks

    def made(self, strategy: Any) -> None:
        name = type(strategy).__name__
        if name.startswith("_Default"):
            return
        where = frames.here(skip_self=strategy)
        if where is None or any(one.strategy is strategy for one in self.built):
            return
        self.built.append(Built(strategy, where))
        self.write()

    def scope(self, strategy: Any) -> None:
        for one in self.built:
            if one.strategy is strategy:
                one.scopes += 1

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
            seen["models_outside"] = self.outside()
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
            place["local_world_size"] = hosts.count(hosts[rank])
        return place
    return None


# What is seen of strategies.


def watch_mirrored(loops: Any, module: Any) -> None:
    """See strategies of several devices being built, what they exchange, what each replica does."""
    strategies = loops.strategies
    strategies.exchange.watch(module.MirroredExtended)
    replace(module.MirroredStrategy, "__init__", _make_mirrored(strategies))

    def make(original: Any) -> Any:
        def _call_for_each_replica(self: Any, *args: Any, **kwargs: Any) -> Any:
            if loops.passive():
                return original(self, *args, **kwargs)
            return loops.replicas.ran(lambda: original(self, *args, **kwargs))

        return _call_for_each_replica

    replace(module.MirroredExtended, "_call_for_each_replica", make)


def watch_jobs(loops: Any, module: Any) -> None:
    """See what strategies of several processes exchange."""
    loops.strategies.exchange.watch(module.CollectiveAllReduceExtended)


def watch_strategies(loops: Any, module: Any) -> None:
    """See strategies being built, and their scopes being entered."""
    strategies, process = loops.strategies, loops.process

    def made(strategy: Any, extended: Any) -> None:
        strategies.made(strategy)

    def scope(strategy: Any) -> None:
        if frames.is_users(sys._getframe(2).f_code.co_filename):
            strategies.scope(strategy)

    after(process, module.StrategyBase, "__init__", "a strategy", made)
    before(process, module.StrategyBase, "scope", "the scope of a strategy", scope)


def _make_mirrored(strategies: Strategies) -> Any:
    """Make the wrapper of `MirroredStrategy`: it may be told to use fewer devices."""

    def make(original: Any) -> Any:
        def __init__(  # noqa: N807
            self: Any, devices: Any = None, cross_device_ops: Any = None
        ) -> None:
            most = strategies.process.settings.get("devices")
            if most is not None:
                devices = _first_devices(devices, most)
            original(self, devices=devices, cross_device_ops=cross_device_ops)

        return __init__

    return make


def _first_devices(devices: Any, most: int) -> list[Any]:
    if not devices:
        from tensorflow.python.distribute import mirrored_strategy

        devices = mirrored_strategy.all_local_devices()
    return list(devices)[:most]

"""See strategies being built and used, and what is built outside of their scopes."""

from __future__ import annotations

import sys
from typing import Any

from ...process import frames
from ...process.patching import after, before, replace
from .scopes import Strategies


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


def watch_workers(loops: Any, module: Any) -> None:
    """See strategies of several processes being built, and what they exchange."""
    strategies = loops.strategies
    strategies.exchange.watch(module.CollectiveAllReduceExtended)
    replace(module.CollectiveAllReduceStrategy, "__init__", _make_workers(strategies))


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
            if cross_device_ops is not None:
                strategies.given(self)

        return __init__

    return make


def _make_workers(strategies: Strategies) -> Any:
    def make(original: Any) -> Any:
        def __init__(  # noqa: N807
            self: Any, cluster_resolver: Any = None, communication_options: Any = None
        ) -> None:
            if communication_options is None:
                original(self, cluster_resolver)
                return
            original(self, cluster_resolver, communication_options)
            asked = getattr(communication_options.implementation, "value", "AUTO")
            if asked != "AUTO" or communication_options.bytes_per_pack:
                strategies.given(self)

        return __init__

    return make


def _first_devices(devices: Any, most: int) -> list[Any]:
    if not devices:
        from tensorflow.python.distribute import mirrored_strategy

        devices = mirrored_strategy.all_local_devices()
    return list(devices)[:most]

"""See strategies being built and used, and what is built outside of their scopes."""

from __future__ import annotations

import sys
from typing import Any

from ...process import frames
from ...process.patching import replace
from .scopes import Strategies


def watch_mirrored(strategies: Strategies, module: Any) -> None:
    """See strategies of several devices being built, and what they exchange."""
    strategies.exchange.watch(module.MirroredExtended)
    replace(module.MirroredStrategy, "__init__", _make_mirrored(strategies))


def watch_workers(strategies: Strategies, module: Any) -> None:
    """See strategies of several processes being built, and what they exchange."""
    strategies.exchange.watch(module.CollectiveAllReduceExtended)
    replace(module.CollectiveAllReduceStrategy, "__init__", _make_workers(strategies))


def watch_strategies(strategies: Strategies, module: Any) -> None:
    """See strategies being built, and their scopes being entered."""
    base = module.StrategyBase

    def make_init(original: Any) -> Any:
        def __init__(self: Any, extended: Any) -> None:  # noqa: N807
            original(self, extended)
            try:
                strategies.made(self)
            except Exception as error:
                strategies.process.failed("a strategy", error)

        return __init__

    def make_scope(original: Any) -> Any:
        def scope(self: Any) -> Any:
            if frames.is_users(sys._getframe(1).f_code.co_filename):
                strategies.scope(self)
            return original(self)

        return scope

    replace(base, "__init__", make_init)
    replace(base, "scope", make_scope)


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


def make_variable(strategies: Strategies) -> Any:
    """Make the wrapper of a variable's constructor."""

    def make(original: Any) -> Any:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(self, *args, **kwargs)
            if strategies.built:
                try:
                    strategies.variable(self)
                except Exception as error:
                    strategies.process.failed("a variable", error)

        return __init__

    return make


def make_model(strategies: Strategies) -> Any:
    """Make the wrapper of the constructor that all Keras models come by."""

    def make(original: Any) -> Any:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            try:
                strategies.model(self)
            except Exception as error:
                strategies.process.failed("a model", error)
            original(self, *args, **kwargs)

        return __init__

    return make


def _first_devices(devices: Any, most: int) -> list[Any]:
    if not devices:
        from tensorflow.python.distribute import mirrored_strategy

        devices = mirrored_strategy.all_local_devices()
    return list(devices)[:most]

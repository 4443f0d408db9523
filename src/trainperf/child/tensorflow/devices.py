"""Which devices hold a model: weights placed by hand on several of them."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..timing.loop_drivers import LoopDriver


def record(driver: LoopDriver) -> None:
    """Record the fact `devices_used`, where there is more than one device to use."""
    import tensorflow as tf

    if len(tf.config.list_logical_devices()) > 1:
        driver.process.fact("devices_used", used())


def used() -> list[str]:
    """The devices of all trainable variables that are alive, as "CPU:1"."""
    from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

    devices = {
        _short(value.device)
        for value in gc.get_objects()
        if isinstance(value, BaseResourceVariable) and _trainable(value)
    }
    return sorted(device for device in devices if device)


def _trainable(variable: Any) -> bool:
    """Whether a model would learn it; half-made variables do not say."""
    try:
        return bool(variable.trainable and variable.dtype.is_floating)
    except AttributeError:
        return False


def _short(device: str) -> str:
    return device.rpartition("device:")[2]

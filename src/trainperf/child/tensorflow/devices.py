"""The devices of a TensorFlow process: which GPUs it sees and uses, and which hold weights."""

from __future__ import annotations

import gc
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..timing.drivers.loop_drivers import LoopDriver


LEAST_HELD = 2**20
"""Bytes that tensors must have held on a GPU for it to count as used: TensorFlow itself takes
a few kilobytes of each that it sees."""


def gpus() -> list[dict[str, Any]]:
    """The GPUs that the script lets TensorFlow see, each with whether it is `used`.

    TensorFlow tells neither their UUIDs nor their memory. Where it does not say how much was
    used of one (it was cut into several, say), that one counts as used.
    """
    import tensorflow as tf

    seen = tf.config.get_visible_devices("GPU")
    cut = of_a_worker(tf.config.list_logical_devices("GPU")) != len(seen)
    found = []
    for number, gpu in enumerate(seen):
        told = tf.config.experimental.get_device_details(gpu)
        capability = told.get("compute_capability")
        found.append(
            {
                "number": number,
                "name": told.get("device_name", ""),
                "uuid": None,
                "memory": None,
                "capability": None if capability is None else "{}.{}".format(*capability),
                "used": cut or _held(tf, number) >= LEAST_HELD,
            }
        )
    return found


def of_a_worker(devices: list[Any]) -> int:
    """How many devices a worker has: in a cluster each sees those of all the others as well."""
    workers = Counter(str(one.name).rpartition("/device:")[0] for one in devices)
    return max(workers.values(), default=0)


def _held(tf: Any, number: int) -> int:
    """Bytes that tensors held on a GPU at most."""
    try:
        return int(tf.config.experimental.get_memory_info(f"GPU:{number}")["peak"])
    except Exception:  # not every allocator counts
        return LEAST_HELD


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

"""Time a large matrix product on the GPU, in the dtype that the model computes in."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from ..timing.loops import Extra
from ..timing.probing import matmul

_DTYPES = {"mixed_float16": "float16", "mixed_bfloat16": "bfloat16"}
_KNOWN = ("float16", "bfloat16", "float32")


def extras(driver: Any) -> list[Extra]:
    """The product, where a single process trains on one GPU."""

    def on_gpu() -> bool:
        tf: Any = sys.modules["tensorflow"]
        return len(tf.config.list_logical_devices("GPU")) == 1 and bool(tf.executing_eagerly())

    return matmul.extras(driver, on_gpu, record)


def record(driver: Any) -> None:
    """Record it. Touches no state of the user's.

    Random numbers are made without the generators of the process. The memory is a part of
    what TensorFlow had in use at its peak and has free now: none is asked of the driver.
    """
    tf: Any = sys.modules["tensorflow"]
    name = tf.config.list_logical_devices("GPU")[0].name
    dtype = _dtype(driver)
    product = matmul.Product(
        dtype=_named(tf, dtype, name),
        itemsize=tf.as_dtype(dtype).size,
        free=_free(tf, name),
        make=lambda size: _call(tf, name, dtype, size),
        clock=time.perf_counter,
    )
    matmul.record(driver, product)


def _call(tf: Any, name: str, dtype: str, size: int) -> Callable[[int], None]:
    """A call that multiplies: random numbers, as zeros would draw less power."""
    with tf.device(name):
        one, two = (
            tf.cast(tf.random.stateless_uniform((size, size), seed=(1, number)), dtype)
            for number in range(2)
        )

    def call(count: int) -> None:
        with tf.device(name):
            for _ in range(count):
                out = tf.linalg.matmul(one, two)
        out[0, 0].numpy()  # waits for all before it: a GPU runs its kernels in order

    return call


def _free(tf: Any, name: str) -> int:
    """Bytes the process has taken from the GPU at its peak and does not use now."""
    info = tf.config.experimental.get_memory_info(name.rpartition("device:")[2] or "GPU:0")
    return max(0, int(info["peak"]) - int(info["current"]))


def _dtype(driver: Any) -> str:
    """The compute dtype of the model that is trained; float32 where it does not say."""
    model = getattr(driver, "model", None)
    said = getattr(model, "compute_dtype", None)
    if said is None:
        policy = getattr(getattr(model, "dtype_policy", None), "name", "float32")
        said = _DTYPES.get(policy, policy)
    return said if said in _KNOWN else "float32"


def _named(tf: Any, dtype: str, name: str) -> str:
    """The dtype in words: "tf32" where float32 products are computed in it."""
    if dtype != "float32" or not tf.config.experimental.tensor_float_32_execution_enabled():
        return dtype
    gpus = tf.config.list_physical_devices("GPU")
    found = tf.config.experimental.get_device_details(gpus[0]) if gpus else {}
    return "tf32" if found.get("compute_capability", (0, 0))[0] >= 8 else dtype

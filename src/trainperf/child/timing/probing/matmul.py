"""Time a large square matrix product: what the GPU gives at best, for any framework.

Runs once, when all else was measured. The matrices take a fraction of the memory that
is free already, so that the user's run finds the memory it had.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..loops import Extra

WHAT = "a large matrix product"

SIZES = (8192, 4096, 2048, 1024)
"""Sides that are tried, largest first: tensor cores reach their rate from some thousands."""

BUDGET_S = 0.3
"""All calls together take no longer than this, warm-up included."""

SHARE_OF_FREE = 0.25
"""Share of the free memory that the three matrices may take."""

CALLS_IN_BUDGET = 8
"""A side is taken only if so many calls fit into what is left of the budget."""


@dataclass(frozen=True)
class Product:
    """How one framework multiplies: `make` returns a call that has ended when it returns.

    `make(size)` allocates two square matrices; the call it returns multiplies them `n`
    times. `free` is bytes that can be taken without asking the driver for more.
    """

    dtype: str
    itemsize: int
    free: int
    make: Callable[[int], Callable[[int], None]]
    clock: Callable[[], float]


def extras(driver: Any, on_gpu: Callable[[], bool], record: Callable[[Any], None]) -> list[Extra]:
    """The last measurement of a single process on a GPU; nothing on any other device."""
    try:
        if driver.world is not None or not on_gpu():
            return []
    except Exception:  # what is not known to be on a GPU is not
        return []
    return [(WHAT, lambda deadline: record(driver))]


def record(driver: Any, product: Product, device: int = 0) -> None:
    """Record the fact `matmul`, or why there is none."""
    found = measure(product)
    if found is None:
        driver.record.write("missing", what=WHAT, reason="too little GPU memory or time was left")
    else:
        driver.process.fact("matmul", {**found, "device": device})


def measure(product: Product) -> dict[str, object] | None:
    """Return `dtype`, `flops_s`, `seconds` and `size`; None where there is no room or time.

    The smallest side is timed first: it says how long a larger one would take. A product
    of side n takes 2 n³ operations.
    """
    fitting = [size for size in SIZES if _bytes(product, size) <= SHARE_OF_FREE * product.free]
    if not fitting:
        return None
    began = product.clock()
    smallest = fitting[-1]
    call = product.make(smallest)
    call(1)  # what is set up at the first call is not the product's time
    rate = _flops(smallest, 1) / _timed(product, call, 1)
    left = BUDGET_S - (product.clock() - began)
    sizes = [size for size in fitting if CALLS_IN_BUDGET * _flops(size, 1) / rate <= left]
    if not sizes:
        return None
    size = sizes[0]
    if size != smallest:
        del call
        call = product.make(size)
        call(1)
    once = _timed(product, call, 1)
    left = BUDGET_S - (product.clock() - began)
    count = max(1, min(64, int(left / 2 / max(once, 1e-9))))
    seconds = _timed(product, call, count)
    return {
        "dtype": product.dtype,
        "flops_s": _flops(size, count) / seconds,
        "seconds": seconds,
        "size": size,
    }


def _timed(product: Product, call: Callable[[int], None], count: int) -> float:
    began = product.clock()
    call(count)
    return max(product.clock() - began, 1e-9)


def _bytes(product: Product, size: int) -> int:
    return 3 * size * size * product.itemsize


def _flops(size: int, count: int) -> float:
    return 2.0 * size**3 * count

"""Time a large matrix product on the GPU, in the dtype that the model computes in."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from ...timing.loops import Extra
from ...timing.probing import matmul
from . import models


def extras(driver: Any) -> list[Extra]:
    """The product, where a single process trains on a CUDA device."""
    return matmul.extras(driver, lambda: bool(models.devices(driver)), record)


def record(driver: Any) -> None:
    """Record it. Touches no state of the user's.

    The generator is its own, autocast and gradients are off, and no memory is asked of
    the driver but a fraction of what is free.
    """
    torch: Any = sys.modules["torch"]
    index = models.devices(driver)[0]
    if torch.cuda.is_current_stream_capturing():
        driver.record.write("missing", what=matmul.WHAT, reason="a CUDA graph is being captured")
        return
    dtype = _dtype(driver, torch)
    # TF32: the older question raises once the newer setting was used (2.9).
    newer = getattr(torch.backends.cuda.matmul, "fp32_precision", None)
    allowed = (
        newer == "tf32"
        if newer in ("tf32", "ieee")
        else torch.get_float32_matmul_precision() != "highest"
    )
    tf32 = dtype == torch.float32 and allowed and torch.cuda.get_device_capability(index)[0] >= 8
    # Bytes that nobody has: free on the device, or in the allocator's cache.
    free, _ = torch.cuda.mem_get_info(index)
    cached = torch.cuda.memory_reserved(index) - torch.cuda.memory_allocated(index)
    product = matmul.Product(
        dtype="tf32" if tf32 else str(dtype).removeprefix("torch."),
        itemsize=dtype.itemsize,
        free=max(int(free), int(cached)),
        make=lambda size: _call(torch, index, dtype, size),
        clock=time.perf_counter,
    )
    with torch.no_grad(), torch.autocast("cuda", enabled=False):
        matmul.record(driver, product, index)


def _call(torch: Any, index: int, dtype: Any, size: int) -> Callable[[int], None]:
    """A call that multiplies: random numbers, as zeros would draw less power."""
    device = torch.device("cuda", index)
    own = torch.Generator(device=device)
    one, two = (
        torch.randn(size, size, device=device, dtype=dtype, generator=own) for _ in range(2)
    )
    out = torch.empty(size, size, device=device, dtype=dtype)
    torch.cuda.synchronize(device)

    def call(count: int) -> None:
        for _ in range(count):
            torch.mm(one, two, out=out)
        torch.cuda.synchronize(device)

    return call


def _dtype(driver: Any, torch: Any) -> Any:
    """That of the autocast region around the forward, else that of most weights."""
    region = driver.loops.autocast.removeprefix("torch.")
    if region in ("float16", "bfloat16"):
        return getattr(torch, region)
    sizes: dict[Any, int] = {}
    for model, _, _ in models.models(driver.loops):
        for weight in model.parameters():
            if weight.dtype in (torch.float16, torch.bfloat16, torch.float32):
                sizes[weight.dtype] = sizes.get(weight.dtype, 0) + weight.numel()
    return max(sizes, key=lambda one: sizes[one]) if sizes else torch.float32

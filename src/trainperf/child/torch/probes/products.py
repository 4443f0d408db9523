"""How fast the model's own products are, beside one large product on the same device."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ...timing.probing import large_product
from .passes import NotOffered, Probing

HEAVY = re.compile(r"rnn|lstm|gru|att(e)?n|linear|gemm|matmul|mm\b|convolution|conv\dd|fft")
"""Names of operators that multiply; an uncounted one makes the count too small."""

ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"
"""PyTorch has formulas for the kernels of GPUs only."""


def matmul_rate(probing: Probing) -> None:
    """The pass against one large matrix product in its type, with the operations of each.

    A multiplication with its addition counts as two, as in `torch.utils.flop_counter`.
    """
    import torch

    found = probing.training_pass()
    flops = _operations(found)
    types = {weight.dtype for weight in found.parameters if weight.is_floating_point()}
    dtype = getattr(torch, found.autocast) if found.autocast else types.pop()
    if types and not found.autocast:
        raise NotOffered("the parameters are of several types")
    device = found.parameters[0].device

    def product_of(side: int) -> Callable[[], Any]:
        drawn = torch.Generator(device).manual_seed(0)  # the script's own stays as it is
        factor = torch.rand(side, side, dtype=dtype, device=device, generator=drawn)
        return lambda: factor @ factor

    product, side = large_product(probing.driver, product_of)
    probing.compare(
        "matmul_rate",
        found,
        product,
        found.once,
        flops=flops,
        product_flops=2 * side**3,
        dtype=str(dtype).removeprefix("torch."),
        of="forward and backward",
        model=type(found.module).__name__,
    )


def _operations(found: Any) -> int:
    """Multiplications and additions of a pass; raises `NotOffered` where some are not counted."""
    import torch.utils._python_dispatch as dispatch
    import torch.utils.flop_counter as flop_counter

    known: Any = flop_counter
    on_cpu: dict[str, Any] = {
        ATTENTION: lambda q, k, v, *_, **__: known.sdpa_flop_count(q.shape, k.shape, v.shape),
        f"{ATTENTION}_backward": lambda out, q, k, v, *_, **__: known.sdpa_backward_flop_count(
            out.shape, q.shape, k.shape, v.shape
        ),
    }
    counted, uncounted = 0, set()

    def called(mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        nonlocal counted
        out = func(*args, **(kwargs or {}))
        name = func._overloadpacket.__name__
        count: Any = known.flop_registry.get(func._overloadpacket) or on_cpu.get(name)
        if count is not None:
            counted += count(*args, **(kwargs or {}), out_val=out)
        elif HEAVY.search(name):
            uncounted.add(name)
        return out

    counting: Any = type("Counting", (dispatch.TorchDispatchMode,), {"__torch_dispatch__": called})
    with counting():
        found()
    if uncounted:
        raise NotOffered(f"the operations of {', '.join(sorted(uncounted))} are not counted")
    if not counted:
        raise NotOffered("the model multiplies no matrices")
    return counted

"""Time a PyTorch step against variations of it that real fixes would make.

Probes run when all else has been recorded. The weights stay as they are, but buffers,
gradients, the optimizers' states and random streams go on. Ranks begin a probe together, or none
of them makes it; what exchanges their gradients is left out of it.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ...timing.probing import (
    CALLS,
    NOT_NEEDED,
    NotNeeded,
    NotOffered,
    attempt,
    doubles,
    large_product,
    once,
)
from .. import batches, devices
from ..built.models import parameters_of
from .passes import NO_ANSWER, Pass, Probing, changed

if TYPE_CHECKING:
    from ...timing.drivers.driver import Driver

COPIES = 8
"""Base and candidate of an update each keep tensors, gradients and up to two states as large."""
GRADIENT = 1e-3
"""Gradients are random and about that large: squared they are no denormal numbers, which
would slow a CPU down."""
HEAVY = re.compile(r"rnn|lstm|gru|att(e)?n|linear|gemm|matmul|mm\b|convolution|conv\dd|fft")
"""Names of operators that multiply; an uncounted one makes the count too small."""

ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"
"""PyTorch has formulas for the kernels of GPUs only."""


def record(driver: Driver, deadline: float) -> None:
    """Run the probes that make sense for the largest trained model and its optimizer.

    Each probe is an event `probe`, or `missing` with the reason why it was not run; of
    what is there already, or could change nothing, there is neither.
    """
    names = [name for name in PROBES if driver.kind != "fit" or name not in OWN_STEP]
    if driver.world is not None:
        left = driver.world.all_say("probes", deadline - time.monotonic())
        if left is None:
            for name in names:
                driver.record.write("missing", what=f"probe {name}", reason=NO_ANSWER)
            return
        deadline = time.monotonic() + min(left)
    probing, cuda = Probing(driver, deadline), sys.modules["torch"].cuda
    for name in names:
        if reason := attempt(driver, name, partial(PROBES[name], probing), deadline):
            probing.leave(name, reason)
            if reason != NOT_NEEDED and cuda.is_initialized():
                with contextlib.suppress(Exception):  # the reason of the probe says what happened
                    driver.sync()
                    cuda.empty_cache()  # what it had taken
    driver.record.flush()


# ------------------------------------------------------- the pass, and the pass varied


def _vary(
    probing: Probing,
    name: str,
    set_to: Callable[[Any], Any],
    usual: Any,
    other: Any,
    **detail: Any,
) -> None:
    """Compare the pass with a switch as it is, `usual`, with the pass with its `other` value.

    `set_to` is called before each pass, and may return what the pass is called with.
    """
    found = probing.training_pass()

    def run(value: Any) -> None:
        found(**(set_to(value) or {}))

    model = type(found.module).__name__
    try:
        base, candidate = partial(run, usual), partial(run, other)
        probing.compare(name, base, candidate, found.once, **detail, model=model)
    finally:
        set_to(usual)


def _autocast(probing: Probing) -> None:
    """The pass in bfloat16 where PyTorch holds that safe; float16 on older GPUs."""
    import torch

    found = probing.training_pass()
    if not _in_float32(found):
        raise NotNeeded
    older = found.device == "cuda" and _capability() < (8, 0)
    dtype = torch.float16 if older else torch.bfloat16
    set_to = lambda on: {"autocast": dtype if on else None}  # noqa: E731
    _vary(probing, "autocast", set_to, False, True, dtype=str(dtype).removeprefix("torch."))


def _channels_last(probing: Probing) -> None:
    """The pass with the model's weights and images in channels_last.

    The loop would convert each batch too, so that counts as part of the pass.
    """
    import torch

    found, last = probing.training_pass(), torch.channels_last
    weights = [weight for weight in found.parameters if weight.dim() == 4]
    before = [weight.data for weight in weights]
    if (
        not _has_layer(found, torch.nn.Conv2d, torch.nn.ConvTranspose2d)
        or not any(map(_is_image, batches.leaves(found.arguments)))
        or any(one.is_contiguous(memory_format=last) and not one.is_contiguous() for one in before)
    ):
        raise NotNeeded
    left, needed = devices.spare(found.parameters[0].device), sum(each.nbytes for each in before)
    if left is not None and needed > left / 2:
        raise NotOffered("too little memory was left to copy the weights")
    after = [tensor.to(memory_format=last) for tensor in before]
    current = before

    def use(tensors: list[Any]) -> dict[str, Any]:
        nonlocal current
        if current is not tensors:
            current = tensors
            for weight, tensor in zip(weights, tensors, strict=True):
                weight.grad = None
                weight.data = tensor
        return {"arguments": batches.mapped(found.arguments, convert) if tensors is after else None}

    def convert(leaf: Any) -> Any:
        return leaf.to(memory_format=last) if _is_image(leaf) else leaf

    _vary(probing, "channels_last", use, before, after)


def _is_image(tensor: Any) -> bool:
    return bool(tensor.dim() == 4 and tensor.is_floating_point())


def _has_layer(found: Pass, *kinds: type) -> bool:
    return any(isinstance(part, kinds) for part in found.module.modules())


def _matmul_precision(probing: Probing) -> None:
    """The pass with TF32 matrix products against those of full float32."""
    import torch

    found = probing.training_pass()
    if found.device != "cuda" or _capability() < (8, 0) or not _in_float32(found):
        raise NotNeeded
    if torch.get_float32_matmul_precision() != "highest":
        raise NotNeeded
    _vary(probing, "matmul_precision", torch.set_float32_matmul_precision, "highest", "high")


def _cudnn_benchmark(probing: Probing) -> None:
    """The pass with convolution kernels that cuDNN timed, against those it chose by rule."""
    import torch

    found, flags = probing.training_pass(), torch.backends.cudnn
    chosen = found.device == "cuda" and not (flags.benchmark or flags.deterministic)
    if not chosen or not _has_layer(found, torch.nn.modules.conv._ConvNd):
        raise NotNeeded
    set_to = lambda on: setattr(flags, "benchmark", on)  # noqa: E731
    _vary(probing, "cudnn_benchmark", set_to, False, True)


def _anomaly(probing: Probing) -> None:
    import torch

    if not torch.is_anomaly_enabled():
        raise NotNeeded
    checks_nan = torch.is_anomaly_check_nan_enabled()
    set_to = lambda on: torch.set_anomaly_enabled(on, checks_nan)  # noqa: E731
    _vary(probing, "anomaly", set_to, True, False)


def _capability() -> tuple[int, int]:
    import torch

    return torch.cuda.get_device_capability()


def _in_float32(found: Pass) -> bool:
    import torch

    floating = {weight.dtype for weight in found.parameters if weight.is_floating_point()}
    autocast = found.autocast or torch.is_autocast_enabled(found.device)
    return floating == {torch.float32} and not autocast


# ---------------------------------------------------------------------- twice the samples


def _double_batch(probing: Probing) -> None:
    """The pass and the update on twice the samples; its time is compared per sample.

    The loss is not known: the sum of the outputs stands in for it (see `Pass`). The learning rates
    are zero meanwhile: steps cost the same and leave the weights alone, which a few hundred steps
    on a stand-in would drive to infinity, and some kernels stop the process on what is no number.
    """
    import torch

    found = probing.training_pass(calls=2 * CALLS)
    size = _samples(found, probing.driver)
    _check_memory(found)
    doubled = changed(
        found.arguments,
        lambda one: torch.cat([one, one]).detach().requires_grad_(one.requires_grad),
    )
    trained = {id(weight) for weight in found.parameters}
    steppers = [
        optimizer
        for optimizer in probing.optimizers
        if any(id(weight) in trained for weight in parameters_of(optimizer))
        and all("lr" in group for group in optimizer.param_groups)
        and type(optimizer).__name__ != "LBFGS"  # whose step must be given a closure
    ]

    def run(arguments: Any) -> None:
        found(arguments)
        for optimizer in steppers:
            optimizer.step()

    groups = [group for optimizer in steppers for group in optimizer.param_groups]
    rates = [group["lr"] for group in groups]
    try:
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate.detach() * 0 if hasattr(rate, "detach") else 0.0
        probing.compare(
            "double_batch",
            base=lambda: run(found.arguments),
            candidate=lambda: run(doubled),
            once=found.once,
            per_candidate=2,
            batch_size=size,
            model=type(found.module).__name__,
            updates=len(steppers),
        )
    finally:
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate


def _samples(found: Pass, driver: Driver) -> int:
    """The batch size: the first dimension that all tensors of the call have in common."""
    sizes = {leaf.shape[0] if leaf.dim() else 0 for leaf in batches.leaves(found.arguments)}
    if len(sizes) != 1 or 0 in sizes:
        raise NotOffered("the arguments of the model have no first dimension in common")
    size = int(sizes.pop())
    modules = found.module.modules()
    time_first = any(getattr(part, "batch_first", True) is False for part in modules)
    if time_first and getattr(driver.dataset(), "batch_size", None) != size:
        raise NotOffered("the first dimension may be time (batch_first=False)")
    return size


def _check_memory(found: Pass) -> None:
    """A pass on twice the samples adds at most what the process took so far."""
    import torch

    fits = doubles(devices.processes())
    if found.device == "cuda":
        device = found.parameters[0].device
        left = devices.spare(device)
        fits = left is None or torch.cuda.max_memory_allocated(device) <= left
    if not fits:
        raise NotOffered("too little memory was left for twice the samples")


# ------------------------------------------------ the update, on copies of its tensors


def _fused(probing: Probing) -> None:
    """The update of most values by fused kernels, against the one as it is."""
    if not probing.optimizers:
        raise NotOffered("no optimizer of torch.optim updated the weights")
    values = lambda optimizer: sum(weight.numel() for weight in _updated(optimizer))  # noqa: E731
    optimizer = max(probing.optimizers, key=values)
    base, candidate = _pair(optimizer)
    base.step()
    probing.driver.sync()
    step_s = once(probing.driver, base.step)
    probing.check(CALLS * step_s, f"an update takes {step_s:.2g} s")
    tensors, cls = len(_updated(base)), type(optimizer).__name__
    probing.compare("fused", base.step, candidate.step, step_s, optimizer=cls, tensors=tensors)


def _pair(optimizer: Any) -> tuple[Any, Any]:
    """Two copies that have updated nothing yet, with gradients; the second is to be fused."""
    import torch

    if any(group.get("fused") for group in optimizer.param_groups):
        raise NotNeeded
    cls, tensors = type(optimizer), _updated(optimizer)
    if not cls.__module__.startswith("torch.optim"):
        raise NotOffered(f"{cls.__name__} is no optimizer of torch.optim")
    if "fused" not in inspect.signature(cls).parameters:
        raise NotOffered(f"{cls.__name__} takes no fused=")
    if not tensors:
        raise NotOffered("the optimizer has no tensor to update")
    if any(type(tensor) not in (torch.nn.Parameter, torch.Tensor) for tensor in tensors):
        raise NotOffered("the optimizer updates tensors of a kind that is not copied")
    if any(tensor.grad is not None and tensor.grad.is_sparse for tensor in tensors):
        raise NotOffered("gradients are sparse")
    left = devices.spare(tensors[0].device)
    if left is not None and COPIES * sum(tensor.nbytes for tensor in tensors) > left / 2:
        raise NotOffered("too little memory was left to copy the optimizer's tensors")
    copies = {id(weight): weight.detach().clone().requires_grad_() for weight in tensors}
    for weight in copies.values():
        weight.grad = torch.randn_like(weight) * GRADIENT
    known = {id(weight): weight for weight in parameters_of(optimizer)} | copies
    base = copy.deepcopy(optimizer, known | {id(optimizer.state): defaultdict(dict)})
    own = set(map(id, copies.values()))
    for group in base.param_groups:
        group["params"] = [weight for weight in group["params"] if id(weight) in own]
    candidate = copy.deepcopy(base, {id(base.state): defaultdict(dict)})
    for group in candidate.param_groups:
        group |= {"fused": True, "foreach": None}
    return base, candidate


def _updated(optimizer: Any) -> list[Any]:
    """The tensors that the optimizer updates: those with a gradient, if any has one now."""
    wanted = [weight for weight in parameters_of(optimizer) if weight.requires_grad]
    return [weight for weight in wanted if weight.grad is not None] or wanted


# ------------------------- the model's own products, beside one large product on its device


def _matmul_rate(probing: Probing) -> None:
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


PROBES: dict[str, Callable[[Probing], None]] = {
    "autocast": _autocast,
    "channels_last": _channels_last,
    "fused": _fused,
    "anomaly": _anomaly,
    "matmul_precision": _matmul_precision,
    "cudnn_benchmark": _cudnn_benchmark,
    "double_batch": _double_batch,
    "matmul_rate": _matmul_rate,
}
"""The quick and the likely ones first."""
OWN_STEP = frozenset(PROBES) - {"double_batch", "matmul_rate"}
"""Those that vary what is the user's own to write, and Keras's in its `fit`."""

"""Probe a larger batch: the pass and the update on twice the samples."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...timing.probing import spare_memory
from ...timing.probing.alternating import CALLS
from .. import batches, memory
from .passes import NotOffered, Pass, mapped
from .probing import Probing

if TYPE_CHECKING:
    from ...timing.drivers.loop_drivers import LoopDriver


def double_batch(probing: Probing) -> None:
    """The pass and the update on twice the samples; its time is compared per sample.

    The loss is not known: the sum of the outputs stands in for it (see `Pass`). The
    learning rates are zero meanwhile.
    """
    found = probing.training_pass(calls=2 * CALLS)
    size = _samples(found, probing.driver)
    _check_memory(found)
    doubled = mapped(found.arguments, _twice)
    trained = {id(each) for each in found.parameters}
    steppers = [
        each
        for each in probing.optimizers
        if any(id(one) in trained for group in each.param_groups for one in group["params"])
        and all("lr" in group for group in each.param_groups)
        and not _needs_closure(each)
    ]

    def run(arguments: Any) -> None:
        found(arguments)
        for each in steppers:
            each.step()

    put_back = _frozen(steppers)
    try:
        probing.compare(
            "double_batch",
            base=lambda: run(found.arguments),
            candidate=lambda: run(doubled),
            once=found.once,
            per_candidate=2,
            batch_size=size,
            model=found.name,
            updates=len(steppers),
        )
    finally:
        put_back()


def _twice(tensor: Any) -> Any:
    import torch

    return torch.cat([tensor, tensor]).detach().requires_grad_(tensor.requires_grad)


def _samples(found: Pass, driver: LoopDriver) -> int:
    """The batch size: the first dimension that all tensors of the call have in common."""
    sizes = {leaf.shape[0] if leaf.dim() else 0 for leaf in batches.leaves(found.arguments)}
    if len(sizes) != 1 or 0 in sizes:
        raise NotOffered("the arguments of the model have no first dimension in common")
    size = int(sizes.pop())
    times_first = any(
        getattr(each, "batch_first", True) is False for each in found.module.modules()
    )
    if times_first and getattr(driver.dataset(), "batch_size", None) != size:
        raise NotOffered("the first dimension may be time (batch_first=False)")
    return size


def _check_memory(found: Pass) -> None:
    """A pass on twice the samples adds at most what the process took so far."""
    import torch

    fits = spare_memory.doubles(memory.processes())
    if found.device == "cuda":
        device = found.parameters[0].device
        left = memory.spare(device)
        fits = left is None or torch.cuda.max_memory_allocated(device) <= left
    if not fits:
        raise NotOffered("too little memory was left for twice the samples")


def _frozen(optimizers: list[Any]) -> Callable[[], None]:
    """Set the learning rates to zero: steps cost the same and leave the weights alone.

    Returns what puts them back. Without it a few hundred steps on a stand-in for the
    loss drive the weights to infinity, and some kernels stop the process on what is
    no number.
    """
    kept = [(group, group["lr"]) for one in optimizers for group in one.param_groups]
    for group, rate in kept:
        group["lr"] = rate.detach() * 0 if hasattr(rate, "detach") else 0.0

    def put_back() -> None:
        for group, rate in kept:
            group["lr"] = rate

    return put_back


def _needs_closure(optimizer: Any) -> bool:
    """Whether a step must be given a function that computes the loss (`LBFGS`)."""
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty

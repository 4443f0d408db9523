"""Probe the kernels of an optimizer: its step on copies of its tensors, two ways."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any

from ...timing.probing.alternating import CALLS
from .. import memory
from .passes import NotNeeded, NotOffered
from .probing import Probing

COPIES = 8
"""Base and candidate each keep tensors, gradients and up to two states of that size."""
GRADIENT = 1e-3
"""Gradients are random and about that large: squared they are no denormal numbers, which
would slow a CPU down."""


def fused(probing: Probing) -> None:
    """The update by fused kernels."""
    optimizer = _largest(probing.optimizers)
    base, candidate = _pair(optimizer)
    base.step()
    probing.driver.sync()
    began = time.monotonic()
    base.step()
    probing.driver.sync()
    once = time.monotonic() - began
    if time.monotonic() + CALLS * once > probing.deadline:
        raise NotOffered(f"an update takes {once:.2g} s: {probing.lacking(CALLS * once)}")
    tensors = sum(len(group["params"]) for group in base.param_groups)
    cls = type(optimizer).__name__
    probing.compare("fused", base.step, candidate.step, once, optimizer=cls, tensors=tensors)


def _largest(optimizers: list[Any]) -> Any:
    """The optimizer that updates most values; raises `NotOffered` if there is none."""
    if not optimizers:
        raise NotOffered("no optimizer of torch.optim updated the weights")
    return max(optimizers, key=lambda one: sum(each.numel() for each in _updated(one)))


def _pair(optimizer: Any) -> tuple[Any, Any]:
    """The optimizer as it is and with `fused=True`, each on copies of its own."""
    if any(group.get("fused") for group in optimizer.param_groups):
        raise NotNeeded("the optimizer is fused already")
    cls = type(optimizer)
    if not cls.__module__.startswith("torch.optim"):
        raise NotOffered(f"{cls.__name__} is no optimizer of torch.optim")
    if "fused" not in inspect.signature(cls).parameters:
        raise NotOffered(f"{cls.__name__} takes no fused=")
    _check(_updated(optimizer))
    base = _copy(optimizer, {}, _random)
    settings = {"fused": True, "foreach": None}
    return base, _copy(base, settings, lambda copied: copied.grad.clone())


def _check(tensors: list[Any]) -> None:
    import torch

    if not tensors:
        raise NotOffered("the optimizer has no tensor to update")
    if any(type(each) not in (torch.nn.Parameter, torch.Tensor) for each in tensors):
        raise NotOffered("the optimizer updates tensors of a kind that is not copied")
    if any(each.grad is not None and each.grad.is_sparse for each in tensors):
        raise NotOffered("gradients are sparse")
    needed = COPIES * sum(each.numel() * each.element_size() for each in tensors)
    left = memory.spare(tensors[0].device)
    if left is not None and needed > left / 2:
        raise NotOffered("too little memory was left to copy the optimizer's tensors")


def _updated(optimizer: Any) -> list[Any]:
    """The tensors that the optimizer updates: those with a gradient, if any has one now."""
    every = [each for group in optimizer.param_groups for each in group["params"]]
    wanted = [each for each in every if each.requires_grad]
    return [each for each in wanted if each.grad is not None] or wanted


def _copy(optimizer: Any, settings: dict[str, Any], gradient: Callable[[Any], Any]) -> Any:
    """A new optimizer of the same class and hyper-parameters, on copies with gradients."""
    cls = type(optimizer)
    accepted = inspect.signature(cls).parameters
    settings = {name: value for name, value in settings.items() if name in accepted}
    wanted = {id(each) for each in _updated(optimizer)}
    groups: list[dict[str, Any]] = []
    given: dict[str, Any] = {}
    for group in optimizer.param_groups:
        copies = [_copied(each, gradient) for each in group["params"] if id(each) in wanted]
        rest = {name: _own(value) for name, value in group.items() if name != "params"}
        rest.pop("param_names", None)
        rest.update(settings)
        if copies:
            groups.append({**rest, "params": copies})
            given = given or {name: value for name, value in rest.items() if name in accepted}
    return cls(groups, **given)


def _own(value: Any) -> Any:
    """A learning rate may be a tensor, which a step may write into."""
    return value.detach().clone() if hasattr(value, "detach") else value


def _copied(parameter: Any, gradient: Callable[[Any], Any]) -> Any:
    copied = parameter.detach().clone().requires_grad_()
    copied.grad = gradient(parameter)
    return copied


def _random(parameter: Any) -> Any:
    import torch

    return torch.randn_like(parameter).detach() * GRADIENT

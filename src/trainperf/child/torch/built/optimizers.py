"""The optimizers of a PyTorch loop, in their own words."""

from __future__ import annotations

import inspect
import sys
from typing import Any

from .places import optimizer_site


def record(driver: Any) -> None:
    """Record each optimizer that updated weights as an event `torch_optimizer`."""
    for optimizer in driver.loops.optimizers:
        driver.record.write("torch_optimizer", **optimizer_facts(driver.loops, optimizer))


def parameters_of(optimizer: Any) -> list[Any]:
    """All parameter tensors of an optimizer."""
    return [one for group in optimizer.param_groups for one in group["params"]]


def optimizer_facts(loops: Any, optimizer: Any) -> dict[str, Any]:
    """The fields of `TorchOptimizer` for one optimizer."""
    key, cls = id(optimizer), type(optimizer)
    parameters = parameters_of(optimizer)
    return {
        "cls": cls.__name__,
        "where": optimizer_site(loops, optimizer),
        "step_where": loops.step_sites.get(key),
        "zero_grad_where": loops.zero_grad_sites.get(key),
        "fused": _setting(optimizer, "fused"),
        "foreach": _setting(optimizer, "foreach"),
        "can_fuse": can_fuse(optimizer),
        "tensors": len(parameters),
        "parameters": sum(int(one.numel()) for one in parameters),
        "set_to_none": loops.set_to_none.get(key),
        "builtin": is_builtin(cls),
        "learning_rate": _learning_rate(optimizer),
        "scheduled": any("initial_lr" in group for group in optimizer.param_groups),
    }


def is_builtin(cls: type) -> bool:
    """Whether a class is one of `torch.optim` itself, no subclass of it."""
    return cls.__module__ == "torch.optim" or cls.__module__.startswith("torch.optim.")


def _learning_rate(optimizer: Any) -> float | None:
    """The rate of all parameter groups; None where they have several, or it is a tensor."""
    rates = {group.get("lr") for group in optimizer.param_groups}
    rate = rates.pop() if len(rates) == 1 else None
    return float(rate) if isinstance(rate, int | float) else None


def _setting(optimizer: Any, name: str) -> bool | None:
    """A setting as the parameter groups have it; as first given if they differ."""
    values = [group.get(name) for group in optimizer.param_groups]
    value = values[0] if len(set(values)) == 1 else optimizer.defaults.get(name)
    return None if value is None else bool(value)


def can_fuse(optimizer: Any) -> bool:
    """Whether `fused=True` would be accepted: by class, device, dtype and settings.

    The rules are those of `_default_to_fused_or_foreach` in `torch.optim.optimizer`;
    sparse gradients are refused by the kernels themselves.
    """
    cls: Any = type(optimizer)
    if not is_builtin(cls) or "fused" not in inspect.signature(cls.__init__).parameters:
        return False
    if any(group.get("differentiable") for group in optimizer.param_groups):
        return False
    supported = _fused_devices()
    return all(
        one.is_floating_point()
        and one.device.type in supported
        and not (one.grad is not None and one.grad.is_sparse)
        for one in parameters_of(optimizer)
    )


def _fused_devices() -> frozenset[str]:
    """The device types with fused kernels, among those trainperf knows."""
    utils: Any = sys.modules.get("torch.utils._foreach_utils")
    devices = getattr(utils, "_get_fused_kernels_supported_devices", None)
    return frozenset(devices() if devices is not None else ()) & {"cuda", "cpu"}

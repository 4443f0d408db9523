"""Count the kernels that one forward starts, on one forward more.

It runs under `no_grad` when all is timed, and puts back what a forward may leave
behind: random states, buffers, attributes of the modules. Where that cannot be done,
nothing is run.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

MOST_SECONDS = 5.0
MOST_CALLS = 100_000
MOST_BUFFERS = 256 * 1024**2
"""Buffers beyond so many bytes (caches) are not copied, and nothing is counted."""


class _Enough(BaseException):
    """Leaves a forward that takes too long; no `except Exception` of the user's holds it."""


def forward_calls(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
    """Operators one forward of `model` dispatches, views left out; None if not counted."""
    torch: Any = sys.modules["torch"]
    if not _safe(torch, model):
        return None
    counted = _counting(torch)
    try:
        with _as_before(torch, model), torch.no_grad(), counted:
            model(*args, **dict(kwargs))
    except (Exception, _Enough):  # a forward that needs gradients, its autocast, more time
        return None
    return int(counted.calls)


def _safe(torch: Any, model: Any) -> bool:
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return False  # it may wait for the other ranks
    for module in model.modules():
        if isinstance(module, torch.jit.ScriptModule) or type(module).__name__ == "OptimizedModule":
            return False
        if getattr(module, "_compiled_call_impl", None) is not None:
            return False
    buffers = sum(one.numel() * one.element_size() for one in model.buffers())
    return bool(buffers <= MOST_BUFFERS)


def _counting(torch: Any) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
        calls = 0
        deadline = time.monotonic() + MOST_SECONDS

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if not func.is_view:
                self.calls += 1
            if self.calls > MOST_CALLS or time.monotonic() > self.deadline:
                raise _Enough
            return func(*args, **(kwargs or {}))

    return Counting()  # type: ignore[no-untyped-call]


@contextmanager
def _as_before(torch: Any, model: Any) -> Iterator[None]:
    """Leave random states, buffers and attributes of the modules as they were."""
    attributes = [(module, dict(vars(module))) for module in model.modules()]
    members = [(held, dict(held)) for module in model.modules() for held in _held(module)]
    buffers = [(one, one.detach().clone()) for one in _written(model)]
    restore = _random_states(torch, model)
    try:
        yield
    finally:
        restore()
        for module, before in attributes:
            vars(module).clear()
            vars(module).update(before)
        for held, before in members:
            held.clear()
            held.update(before)
        for buffer, value in buffers:  # kernels that write statistics leave `_version` alone
            if not torch.equal(buffer.detach(), value):
                buffer.data.copy_(value)  # unseen by autograd, which may have saved it


def _written(model: Any) -> Iterator[Any]:
    """Tensors that a forward may write into: buffers, and what Keras keeps as frozen parameters."""
    yield from model.buffers()
    for one in model.parameters():
        if not one.requires_grad and one.dim() <= 1:
            yield one


def _held(module: Any) -> list[dict[str, Any]]:
    return [module._parameters, module._buffers, module._modules]


def _random_states(torch: Any, model: Any) -> Callable[[], None]:
    """A function that sets the random generators back to where they are now."""
    devices = {one.device for one in model.parameters() if one.device.type == "cuda"}
    cpu, python = torch.get_rng_state(), random.getstate()
    gpus = [(device, torch.cuda.get_rng_state(device)) for device in devices]
    numpy: Any = sys.modules.get("numpy")
    array = numpy.random.get_state() if numpy is not None else None

    def restore() -> None:
        torch.set_rng_state(cpu)
        random.setstate(python)
        for device, state in gpus:
            torch.cuda.set_rng_state(state, device)
        if numpy is not None:
            numpy.random.set_state(array)

    return restore

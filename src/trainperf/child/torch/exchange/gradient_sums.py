"""Gradients that the user's own loop exchanges: `dist.all_reduce(p.grad)`.

Which calls are of gradients is found out by their memory at an update, for the first few
updates with such calls. While the exchange is off, those calls return at once, done.
"""

from __future__ import annotations

import sys
from typing import Any

from ...process.patching import replace

LOOKS = 3
"""So many updates with all-reduces before them are looked at."""
MOST = 100_000
"""Of more calls than these before the first update nothing is kept."""


class Sums:
    """The all-reduces of a process. `sizes` are bytes of those of gradients in a step."""

    def __init__(self, loops: Any) -> None:
        self._loops = loops
        self.off = False
        self.sizes: list[int] = []
        self._called: list[tuple[int, int]] = []
        self._looks = 0
        self._gradients: set[int] | None = None

    def reduce(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensor: Any = args[0] if args else kwargs.get("tensor")
        if self.off and self._is_gradient(tensor):
            return done(tensor) if _asynchronous(args, kwargs) else None
        if self._looks < LOOKS and len(self._called) < MOST:
            memory = _memory(tensor)
            if memory:
                self._called.append((memory, tensor.numel() * tensor.element_size()))
        return original(*args, **kwargs)

    def stepped(self, optimizer: Any) -> None:
        """An optimizer updated weights: some of the calls before it were of its gradients."""
        self._gradients = None
        if not self._called:
            return
        memory = _gradients([optimizer])
        found = [size for place, size in self._called if place in memory]
        self._called.clear()
        self._looks += 1
        self.sizes = found or self.sizes

    def _is_gradient(self, tensor: Any) -> bool:
        memory = _memory(tensor)
        if self._gradients is None or memory not in self._gradients:
            self._gradients = _gradients(self._loops.optimizers)
        return memory in self._gradients


def watch(loops: Any, module: Any) -> None:
    """See all-reduces; `module` is `torch.distributed.distributed_c10d`."""
    if not hasattr(module, "all_reduce"):  # PyTorch built without it
        return
    found = sums(loops)

    def make(original: Any) -> Any:
        def all_reduce(*args: Any, **kwargs: Any) -> Any:
            if loops.passive():
                return original(*args, **kwargs)
            return found.reduce(original, args, kwargs)

        return all_reduce

    replace(module, "all_reduce", make)


def sums(loops: Any) -> Sums:
    """Those of a process, made at the first call."""
    if loops.sums is None:
        loops.sums = Sums(loops)
    there: Sums = loops.sums
    return there


def _asynchronous(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return bool(args[3] if len(args) > 3 else kwargs.get("async_op", False))


def _memory(tensor: Any) -> int:
    """The address of a tensor's memory, which `p.grad.data` shares with `p.grad`; 0 if none."""
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (AttributeError, RuntimeError, NotImplementedError):  # sparse, or no tensor at all
        return 0


def _gradients(optimizers: list[Any]) -> set[int]:
    """The addresses of the gradients of all that these optimizers update."""
    found = {
        _memory(one.grad)
        for optimizer in optimizers
        for group in optimizer.param_groups
        for one in group["params"]
        if one.grad is not None
    }
    return found - {0}


def done(tensor: Any) -> Any:
    """A handle of an exchange that is over."""
    torch: Any = sys.modules["torch"]
    future = torch.futures.Future()
    future.set_result([tensor])
    return torch._C._distributed_c10d._create_work_from_future(future)

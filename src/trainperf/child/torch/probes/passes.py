"""Run the last training forward of a model again, with a backward, as it was or varied."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .. import batches

if TYPE_CHECKING:
    from ...timing.drivers.driver import Driver

WARM_UPS = 3


class NotOffered(Exception):  # noqa: N818 - an outcome, not an error
    """A probe cannot be made here; the text says why."""


class NotNeeded(NotOffered):
    """A probe of something that is there already, or that could not change anything."""


class Pass:
    """One forward and backward of `module` on the arguments it was called with last.

    The loss is not known. The sum of all floating outputs, as float32, stands in for it: it costs
    what a cheap loss costs, and its gradient reaches all that the outputs depend on. Each call
    drops the gradients of the one before. Hooks that wait for a gradient, and may update its
    weight, are set aside. `autocast` is the dtype of the region around the forward, "" for none.
    Where the loop `keeps` graphs, one of an earlier step may be among what it derives.
    """

    def __init__(
        self, module: Any, args: Any, kwargs: Any, autocast: str = "", keeps: bool = False
    ) -> None:
        self.module = module
        self.arguments: tuple[Any, Any] = batches.mapped((args, kwargs), _apart)
        self.parameters: list[Any] = list(module.parameters())
        hooks = [getattr(one, "_post_accumulate_grad_hooks", None) for one in self.parameters]
        self._hooks: list[dict[Any, Any]] = [one for one in hooks if one]
        self.autocast = autocast.removeprefix("torch.")
        self._keeps = keeps
        self.once = 0.0

    @property
    def device(self) -> str:
        """The type of the device that the first parameter is on: "cpu", "cuda"."""
        return str(self.parameters[0].device.type) if self.parameters else "cpu"

    @property
    def name(self) -> str:
        return type(self.module).__name__

    def __call__(
        self, arguments: tuple[Any, Any] | None = None, autocast: Any = None, module: Any = None
    ) -> None:
        """Run it; other arguments, an autocast dtype or a compiled module may be given."""
        import torch

        for parameter in self.parameters:
            parameter.grad = None
        args, kwargs = batches.fresh(arguments or self.arguments)
        with torch.enable_grad():
            with self._region(autocast):
                outputs = (self.module if module is None else module)(*args, **kwargs)
            with emptied(self._hooks):
                torch.autograd.backward(surrogate(outputs), retain_graph=self._keeps)

    def _region(self, dtype: Any) -> Any:
        import torch

        if dtype is None and self.autocast:
            dtype = getattr(torch, self.autocast)
        if dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device, dtype=dtype)

    def warm_up(self, driver: Driver) -> None:
        """Run it a few times, and keep in `once` the seconds that the fastest run took."""
        times = []
        for _ in range(WARM_UPS):
            began = time.monotonic()
            self()
            driver.sync()
            times.append(time.monotonic() - began)
        self.once = min(times)


@contextlib.contextmanager
def evaluated(module: Any) -> Iterator[None]:
    """A module in the mode of evaluation, without gradients and with nothing drawn for good."""
    import torch

    modes = [(one, one.training) for one in module.modules()]
    try:
        module.eval()
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            yield
    finally:
        for one, training in modes:
            one.training = training


@contextlib.contextmanager
def emptied(held: list[dict[Any, Any]]) -> Iterator[None]:
    """Take all out of dictionaries for a while; PyTorch looks into these very ones."""
    before = [dict(one) for one in held]
    for one in held:
        one.clear()
    try:
        yield
    finally:
        for one, members in zip(held, before, strict=True):
            one.update(members)


def changed(arguments: tuple[Any, Any], change: Callable[[Any], Any]) -> tuple[Any, Any]:
    """The arguments with each tensor changed; raises `NotOffered` where one stays as it is.

    `mapped` hands on what it does not know, and what fails within: the loop needs its batch.
    """
    new: list[Any] = []

    def noted(tensor: Any) -> Any:
        new.append(change(tensor))
        return new[-1]

    made: tuple[Any, Any] = batches.mapped(arguments, noted)
    if not {id(leaf) for leaf in batches.leaves(made)} <= {id(one) for one in new}:
        raise NotOffered("a container among the arguments of the model could not be changed")
    return made


def surrogate(outputs: Any) -> Any:
    """The sum of all outputs that carry a gradient; raises `NotOffered` if none does."""
    found = {
        id(leaf): leaf
        for leaf in batches.leaves(outputs)
        if leaf.requires_grad and leaf.is_floating_point()
    }
    if not found:
        raise NotOffered("the model returns no tensor that carries a gradient")
    total: Any = None
    for leaf in found.values():
        part = leaf.float().sum()
        total = part if total is None else total + part.to(total.device)
    return total


def _apart(tensor: Any) -> Any:
    """A tensor without the graph it came from, which its own backward has freed."""
    if tensor.grad_fn is None:
        return tensor
    return tensor.detach().requires_grad_(tensor.requires_grad)

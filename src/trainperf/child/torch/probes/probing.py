"""The base of the probes of a PyTorch step: the pass they vary, and its limits."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...timing.budget import Budget
from ...timing.probing.alternating import CALLS, PROBE_S, alternate
from .passes import NotOffered, Pass

if TYPE_CHECKING:
    from ...timing.loop_drivers import LoopDriver

LONGER = 3
"""A probe that takes so many times as long as it should ends with fewer blocks."""
SLOWER = 5
"""A probe that then still has not enough blocks is given up after so many times as long."""


class Probing:
    """The last pass of the largest trained model, and the optimizers, to be probed."""

    def __init__(self, driver: LoopDriver, deadline: float) -> None:
        self.driver = driver
        self.deadline = deadline
        self.optimizers: list[Any] = list(driver.loops.optimizers)
        self._pass: Pass | None = None
        self._reason = ""

    def training_pass(self, calls: int = CALLS) -> Pass:
        """The pass, tried out; raises `NotOffered` where it cannot be run `calls` times."""
        if self._pass is None and not self._reason:
            try:
                self._pass = self._try()
            except NotOffered as error:
                self._reason = str(error)
            except Exception as error:
                self._reason = f"its last pass could not be repeated: {text(error)}"
        if self._pass is None:
            raise NotOffered(self._reason)
        if time.monotonic() + calls * self._pass.once > self.deadline:
            took = f"a forward and backward takes {self._pass.once:.2g} s"
            raise NotOffered(f"{took}: {self.lacking(calls * self._pass.once)}")
        return self._pass

    def lacking(self, takes_s: float) -> str:
        """Say that so many seconds do not fit any more."""
        return Budget.of(self.driver).lacking(takes_s, time.monotonic())

    def _try(self) -> Pass:
        calls = list(self.driver.loops.model_calls.values())
        if not calls:
            raise NotOffered("no training forward of a model was seen")
        if _processes() > 1:
            raise NotOffered("the model is trained by several processes")
        module, args, kwargs = max(calls, key=lambda call: _size(call[0]))
        if any(_compiled(each) for each in module.modules()):
            raise NotOffered("the model is compiled, and would be compiled anew for each probe")
        autocast = getattr(self.driver.loops, "autocast", "") or ""
        found = Pass(module, args, kwargs, autocast)
        found.warm_up(self.driver)
        return found

    def compare(
        self,
        name: str,
        base: Callable[[], Any],
        candidate: Callable[[], Any],
        once: float,
        per_candidate: int = 1,
        **detail: Any,
    ) -> None:
        """Time the two in turn and record the probe.

        `once` is about how many seconds `base` takes. Raises `NotOffered` where the
        candidate is so slow, its first call apart, that it would use up the time of
        the probes after it.
        """
        usual = max(PROBE_S, per_candidate * CALLS * once)
        soft = min(self.deadline, time.monotonic() + LONGER * usual)
        ends: float | None = None

        def bounded() -> None:
            nonlocal ends
            if ends is not None and time.monotonic() > ends:
                raise NotOffered(f"given up: the variation ran over {SLOWER} times slower")
            candidate()
            if ends is None:
                ends = time.monotonic() + SLOWER * usual

        alternate(self.driver, name, soft, base, bounded, per_candidate, **detail)


def text(error: Exception) -> str:
    """An error as the reason why something was not measured."""
    return f"{type(error).__name__}: {error}"[:300]


def _processes() -> int:
    import torch

    distributed: Any = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return 1
    return int(distributed.get_world_size())


def _size(module: Any) -> tuple[bool, int]:
    """Models that can be trained before frozen ones (a teacher), larger before smaller."""
    parameters = list(module.parameters())
    trains = any(each.requires_grad for each in parameters)
    return trains, sum(each.numel() for each in parameters)


def _compiled(module: Any) -> bool:
    graph = getattr(module, "_compiled_call_impl", None)
    return graph is not None or type(module).__name__ == "OptimizedModule"

"""The base of the probes of a PyTorch step: the pass they vary, and its limits."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ...process.process import in_words
from ...timing.budget import Budget
from ...timing.probing.alternating import CALLS, PROBE_S, alternate
from .. import batches, memory
from .passes import NotOffered, Pass

if TYPE_CHECKING:
    from ...timing.drivers.driver import Driver


PASS = "pass"
NO_ANSWER = "not all ranks came to make it"
LONGER = 3
"""A probe that takes so many times as long as it should ends with fewer blocks."""
SLOWER = 5
"""A probe that then still has not enough blocks is given up after so many times as long."""

_SHARDED = ("DTensor", "FlatParameter", "FSDPModule", "FullyShardedDataParallel")
"""Kinds of parameters, and of modules, of which each rank has a part."""
_LIGHTNING = ("lightning", "pytorch_lightning")


class Probing:
    """The last pass of the largest trained model, and the optimizers, to be probed.

    A pass that is not varied may run as it is `compiled`.
    """

    def __init__(self, driver: Driver, deadline: float, compiled: bool = False) -> None:
        self.driver = driver
        self.deadline = deadline
        self._as_compiled = compiled
        self.optimizers: list[Any] = list(driver.loops.optimizers)
        self._pass: Pass | None = None
        self._reason = ""
        self._said: set[str] = set()

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
        try:
            found = self._last_pass()
        except Exception as error:
            self.leave(PASS, str(error) if isinstance(error, NotOffered) else text(error))
            raise
        self._together(PASS)
        with _exchanging_nothing():
            found.warm_up(self.driver)
        return found

    def _last_pass(self) -> Pass:
        """The last pass, not yet run; raises `NotOffered` where it cannot be repeated."""
        calls = list(self.driver.loops.model_calls.values())
        if not calls:
            raise NotOffered("no training forward of a model was seen")
        module, args, kwargs = max(calls, key=lambda call: _size(call[0]))
        if memory.processes() > 1:
            if self.driver.world is None:
                raise NotOffered("its ranks cannot agree on when to do it")
            module, args, kwargs = _rank_alone(module, args, kwargs)
        if not self._as_compiled and any(_compiled(each) for each in module.modules()):
            raise NotOffered("the model is compiled, and would be compiled anew for each probe")
        autocast = getattr(self.driver.loops, "autocast", "") or ""
        return Pass(module, args, kwargs, autocast, self.driver.loops.keeps_graph)

    def leave(self, name: str, reason: str) -> None:
        """This rank does not take part in what `name` is, so that no other may wait for it."""
        if self.driver.world is not None and name not in self._said:
            self._said.add(name)
            self.driver.world.say(f"probe-{name}", reason)

    def _together(self, name: str) -> None:
        """Several ranks come here at the same time; raises `NotOffered` unless all can go on."""
        if self.driver.world is None:
            return
        self._said.add(name)
        said = self.driver.world.all_say(f"probe-{name}", "")
        if said is None:
            raise NotOffered(NO_ANSWER)
        for rank, reason in enumerate(said):
            if reason:
                raise NotOffered(f"rank {rank} cannot: {reason}")

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
        self._together(name)
        usual = max(PROBE_S, per_candidate * CALLS * once)
        soft = min(self.deadline, time.monotonic() + LONGER * usual)
        ends: float | None = None

        def bounded() -> None:
            nonlocal ends
            if ends is not None and time.monotonic() > ends:
                raise NotOffered(f"given up: the variation ran over {SLOWER} times slower")
            with _exchanging_nothing() if ends is None else contextlib.nullcontext():
                candidate()
            if ends is None:
                ends = time.monotonic() + SLOWER * usual

        alternate(self.driver, name, soft, base, bounded, per_candidate, **detail)


def text(error: Exception) -> str:
    """An error as the reason why something was not measured."""
    return in_words(error)


def _size(module: Any) -> tuple[bool, int]:
    """Models that can be trained before frozen ones (a teacher), larger before smaller."""
    parameters = list(module.parameters())
    trains = any(each.requires_grad for each in parameters)
    return trains, sum(each.numel() for each in parameters)


def _compiled(module: Any) -> bool:
    graph = getattr(module, "_compiled_call_impl", None)
    return graph is not None or type(module).__name__ == "OptimizedModule"


# The model of a rank without what exchanges its gradients, for passes that no other waits for.
#
# A forward of the module within `DistributedDataParallel` does not prepare its reducer, which then
# ignores the backward. All collectives of a process group are numbered: what a pass exchanges
# nevertheless is seen in its first run, which the ranks make together.


def _rank_alone(module: Any, args: Any, kwargs: Any) -> tuple[Any, Any, Any]:
    """The model and its arguments, as one rank can run it; raises `NotOffered` where none can."""
    import torch

    if type(module) is torch.nn.parallel.DistributedDataParallel:
        device, module = module.device, module.module
        if device is not None and device.type != "cpu":  # it moves what it is given
            args, kwargs = batches.mapped((args, kwargs), lambda tensor: tensor.to(device))
        if any(one.__module__.partition(".")[0] in _LIGHTNING for one in type(module).__mro__):
            raise NotOffered("Lightning calls its model by other ways than its forward")
    if any(_sharded(one) for one in (*module.parameters(), *module.modules())):
        raise NotOffered("each rank has a part of the model only")
    for one in module.modules():
        if isinstance(one, torch.nn.SyncBatchNorm):
            raise NotOffered("its SyncBatchNorm exchanges with the other ranks in each pass")
    return module, args, kwargs


def _sharded(one: Any) -> bool:
    return any(base.__name__ in _SHARDED for base in type(one).__mro__)


@contextlib.contextmanager
def _exchanging_nothing() -> Iterator[None]:
    """Raise `NotOffered` at the end if collectives were made meanwhile."""
    before = _numbers()
    yield
    if _numbers() != before:
        raise NotOffered("the model exchanges with the other ranks in each pass")


def _numbers() -> list[int]:
    """How many collectives each process group has made; raises `NotOffered` if not counted."""
    if memory.processes() < 2:
        return []
    groups: Any = sys.modules["torch.distributed.distributed_c10d"]
    try:
        return [int(one._get_sequence_number_for_group()) for one in groups._world.pg_map]
    except (AttributeError, RuntimeError) as error:
        raise NotOffered("this PyTorch does not count what its process groups exchange") from error

"""The last training forward of a model, run again with a backward: as it was, varied, traced."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ...process.process import in_words
from ...timing.budget import Budget
from ...timing.probing import CALLS, PROBE_S, NotDone, NotOffered, alternate, once
from .. import batches, devices
from ..built.models import models
from .operator_times import PASS as TRACED
from .operator_times import OperatorTimes

if TYPE_CHECKING:
    from ...timing.drivers.driver import Driver

WARM_UPS = 3
PASS = "pass"
NO_ANSWER = "not all ranks came to make it"
LONGER = 3
"""A probe that takes so many times as long as it should ends with fewer blocks."""
SLOWER = 5
"""A probe that then still has not enough blocks is given up after so many times as long."""

_SHARDED = ("DTensor", "FlatParameter", "FSDPModule", "FullyShardedDataParallel")
"""Kinds of parameters, and of modules, of which each rank has a part."""


class Pass:
    """One forward and backward of `module` on the arguments it was called with last.

    The loss is not known. The sum of all floating outputs, as float32, stands in for it: it costs
    what a cheap loss costs, and its gradient reaches all that the outputs depend on. Each call
    drops the gradients of the one before. Hooks that wait for a gradient, and may update its
    weight, are set aside. `autocast` is the dtype of the region around the forward, "" for none.
    Where the loop `keeps` graphs, one of an earlier step may be among what it derives. `once` is
    how many seconds it takes, `device` the type of device that it runs on.
    """

    def __init__(
        self, module: Any, args: Any, kwargs: Any, autocast: str = "", keeps: bool = False
    ) -> None:
        self.module = module
        self.arguments: tuple[Any, Any] = batches.mapped((args, kwargs), batches.apart)
        self.parameters: list[Any] = list(module.parameters())
        hooks = [getattr(weight, "_post_accumulate_grad_hooks", None) for weight in self.parameters]
        self._hooks = [(members, dict(members)) for members in hooks if members]
        self.autocast = autocast
        self._keeps = keeps
        self.once = 0.0

    @property
    def device(self) -> str:
        return str(self.parameters[0].device.type) if self.parameters else "cpu"

    def __call__(self, arguments: tuple[Any, Any] | None = None, autocast: Any = None) -> None:
        """Run it; other arguments or an autocast dtype may be given."""
        import torch

        for parameter in self.parameters:
            parameter.grad = None
        args, kwargs = batches.fresh(arguments or self.arguments)
        dtype = autocast or (getattr(torch, self.autocast) if self.autocast else None)
        with torch.enable_grad():
            with torch.autocast(self.device, dtype=dtype) if dtype else contextlib.nullcontext():
                outputs = self.module(*args, **kwargs)
            loss = _surrogate(outputs)
            try:  # PyTorch looks into these very dictionaries
                for hooks, _ in self._hooks:
                    hooks.clear()
                torch.autograd.backward(loss, retain_graph=self._keeps)
            finally:
                for hooks, before in self._hooks:
                    hooks.update(before)


@contextlib.contextmanager
def evaluated(module: Any) -> Iterator[None]:
    """A module in the mode of evaluation, without gradients and with nothing drawn for good.

    Its encoders compute the padding, as in training: their fast path leaves out what is masked.
    """
    import torch

    modes = [(part, part.training) for part in module.modules()]
    fast = torch.backends.mha.get_fastpath_enabled()
    try:
        torch.backends.mha.set_fastpath_enabled(False)
        module.eval()
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for part, training in modes:
            part.training = training


def changed(arguments: tuple[Any, Any], change: Callable[[Any], Any]) -> tuple[Any, Any]:
    """The arguments with each tensor changed; raises `NotOffered` where one stays as it is.

    `mapped` hands on what it does not know, and what fails within: the loop needs its batch.
    """
    new: list[Any] = []

    def noted(tensor: Any) -> Any:
        new.append(change(tensor))
        return new[-1]

    made: tuple[Any, Any] = batches.mapped(arguments, noted)
    if not {id(leaf) for leaf in batches.leaves(made)} <= {id(tensor) for tensor in new}:
        raise NotOffered("a container among the arguments of the model could not be changed")
    return made


def _surrogate(outputs: Any) -> Any:
    """The sum of all outputs that carry a gradient; raises `NotOffered` if none does."""
    leaves = {id(leaf): leaf for leaf in batches.leaves(outputs) if leaf.requires_grad}
    sums = [leaf.float().sum() for leaf in leaves.values() if leaf.is_floating_point()]
    if not sums:
        raise NotOffered("the model returns no tensor that carries a gradient")
    return sum((part.to(sums[0].device) for part in sums[1:]), sums[0])


class Probing:
    """The last pass of the largest trained model, and the optimizers, to be probed.

    A pass that is not varied may run as it is `compiled`.
    """

    def __init__(self, driver: Driver, deadline: float, compiled: bool = False) -> None:
        self.driver = driver
        self.deadline = deadline
        self._as_compiled = compiled
        self.optimizers: list[Any] = list(driver.loops.optimizers)
        self._pass: Pass | NotOffered | None = None
        self._left: set[str] = set()

    def training_pass(self, calls: int = CALLS) -> Pass:
        """The pass, tried out; raises `NotOffered` where it cannot be run `calls` times."""
        if self._pass is None:
            try:
                self._pass = self._try()
            except NotOffered as error:
                self._pass = error
            except Exception as error:
                self._pass = NotDone(f"its last pass could not be repeated: {in_words(error)}")
        if isinstance(self._pass, NotOffered):
            self.leave(PASS, str(self._pass))
            raise self._pass
        self.check(calls * self._pass.once, f"a forward and backward takes {self._pass.once:.2g} s")
        return self._pass

    def check(self, takes_s: float, because: str) -> None:
        """Raise `NotOffered` where so many seconds do not fit any more."""
        if time.monotonic() + takes_s > self.deadline:
            lacking = Budget.of(self.driver).lacking(takes_s, time.monotonic())
            raise NotDone(f"{because}: {lacking}")

    def _try(self) -> Pass:
        found = self._last_pass()
        self._together(PASS)
        with _exchanging_nothing():
            found.once = min(once(self.driver, found) for _ in range(WARM_UPS))
        return found

    def _last_pass(self) -> Pass:
        """The last pass, not yet run; raises `NotOffered` where it cannot be repeated."""
        seen = (call for call in models(self.driver.loops) if call.args or call.kwargs)
        if (call := next(seen, None)) is None:
            raise NotOffered("no training forward of a model was seen")
        module, args, kwargs, *_ = call
        if devices.processes() > 1:
            if self.driver.world is None:
                raise NotOffered("its ranks cannot agree on when to do it")
            module, args, kwargs = _rank_alone(module, args, kwargs)
        if not self._as_compiled and any(
            getattr(part, "_compiled_call_impl", None) or type(part).__name__ == "OptimizedModule"
            for part in module.modules()
        ):
            raise NotOffered("the model is compiled, and would be compiled anew for each probe")
        return Pass(module, args, kwargs, call.autocast, call.keeps_graph)

    def leave(self, name: str, reason: str) -> None:
        """This rank does not take part in what `name` is, so that no other may wait for it."""
        if self.driver.world is not None and name not in self._left:
            self._left.add(name)
            self.driver.world.say(f"probe-{name}", reason)

    def _together(self, name: str) -> None:
        """Several ranks come here at the same time; raises `NotOffered` unless all can go on."""
        if self.driver.world is None:
            return
        self._left.add(name)
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
    for part in (*module.parameters(), *module.modules()):
        if any(base.__name__ in _SHARDED for base in type(part).__mro__):
            raise NotOffered("each rank has a part of the model only")
        if isinstance(part, torch.nn.SyncBatchNorm):
            raise NotOffered("its SyncBatchNorm exchanges with the other ranks in each pass")
    return module, args, kwargs


@contextlib.contextmanager
def _exchanging_nothing() -> Iterator[None]:
    """Raise `NotOffered` at the end if collectives were made meanwhile."""
    before = _collectives()
    yield
    if _collectives() != before:
        raise NotOffered("the model exchanges with the other ranks in each pass")


def _collectives() -> list[int]:
    """How many collectives each process group has made; raises `NotOffered` if not counted."""
    if devices.processes() < 2:
        return []
    groups: Any = sys.modules["torch.distributed.distributed_c10d"]
    try:
        return [int(group._get_sequence_number_for_group()) for group in groups._world.pg_map]
    except (AttributeError, RuntimeError) as error:
        raise NotOffered("this PyTorch does not count what its process groups exchange") from error


# A few passes traced: which operators run, and how busy the GPU is.
#
# Tracing slows what is traced, so this is a phase of its own, when all else was timed, and its
# times enter no speed-up.

WHAT = "the operators of a step"
TRACE_S = 2.0
"""Seconds that the trace may take: as much for the passes as for reading what they left."""
RESERVED_S = 0.5
"""Seconds that the probes before it leave to it: enough for a pass of 50 ms or less."""
PASSES = 3
"""Passes that are read at most. One more goes before them: the first pays for the tracer."""
PROFILED = "the script's own profiler is on"
NO_KERNEL = "the tracer saw no kernel on the GPU: CUPTI is missing, or not permitted here"
ASKED = {"KINETO_LOG_LEVEL": "99", "TEARDOWN_CUPTI": "0"}
"""A level above all levels: Kineto reads it when a process first traces, and would else write
"profiler_start" to the user's standard error. And CUPTI is not to be taken down: below CUDA 12.6 a
process with CUDA graphs may crash where it is set up again (torch/profiler/profiler.py)."""


def record_trace(driver: Driver, deadline: float) -> None:
    """Record the event `torch_trace`, or `missing` with the reason why there is none.

    It holds what `Trace` in `model/torch.py` has. What is run is the forward of the
    largest trained model on its last arguments and a backward; no weight is changed.
    """
    try:
        if time.monotonic() > deadline:
            raise NotOffered(Budget.of(driver).lacking(TRACE_S, time.monotonic()))
        stance: Any = contextlib.nullcontext()
        if "torch._dynamo" in sys.modules:
            # What was compiled for the script's own steps; where that does not serve, it raises.
            stance = sys.modules["torch"].compiler.set_stance("fail_on_recompile")
        with stance:
            traced = _trace(driver, Probing(driver, deadline, compiled=True).training_pass(calls=2))
        driver.record.write("torch_trace", **traced)
    except Exception as error:
        reason = str(error) if isinstance(error, NotOffered) else in_words(error)
        driver.record.write("missing", what=WHAT, reason=reason)
    driver.record.flush()


def _trace(driver: Driver, one: Pass) -> dict[str, Any]:
    if one.device not in ("cpu", "cuda"):
        raise NotOffered(f"the tracer is not asked about a {one.device} device")
    if 2 * one.once > TRACE_S / 2:
        raise NotOffered(f"a forward and backward takes {one.once:.2g} s, too long to be traced")
    profiler: Any = sys.modules["torch"].autograd.profiler
    if profiled():
        raise NotOffered(PROFILED)
    passes = max(1, min(PASSES, int(TRACE_S / 2 / max(one.once, 1e-6)) - 1))
    driver.sync()
    with quiet(), profile() as trace:
        for _ in range(1 + passes):
            with profiler.record_function(TRACED):
                one()
                driver.sync()
    traced = OperatorTimes(trace.kineto_results.events(), one.device, leave_out=1)
    if one.device == "cuda" and not traced.kernels:
        raise NotOffered(NO_KERNEL)
    if not traced.windows:
        raise NotOffered("the tracer recorded nothing")
    return traced.event()


def profile() -> Any:
    """Kineto; `torch.profiler.profile` around it imports TorchInductor and sets variables."""
    profiler: Any = sys.modules["torch"].autograd.profiler
    return profiler.profile(use_kineto=True, use_device=device())


def profiled() -> bool:
    return bool(sys.modules["torch"]._C._autograd._profiler_enabled())


def device() -> str | None:
    """The device whose kernels are traced, None where CUDA is not in use.

    Also where this build of PyTorch cannot trace them: it would put an event around each
    operator in place of that.
    """
    torch: Any = sys.modules["torch"]
    traces = torch.autograd.ProfilerActivity.CUDA in torch._C._autograd._supported_activities()
    return "cuda" if traces and torch.cuda.is_initialized() else None


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Kineto logs nothing and keeps CUPTI, and finds the environment as it was afterwards."""
    before = {name: os.environ[name] for name in ASKED if name in os.environ}
    os.environ.update(ASKED)
    try:
        yield
    finally:
        for name in ASKED:
            os.environ.pop(name, None)
        os.environ.update(before)

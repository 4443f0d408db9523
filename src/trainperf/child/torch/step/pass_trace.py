"""Trace a few passes of a PyTorch model: which operators run, and how busy the GPU is.

Tracing slows what is traced, so this is a phase of its own, when all else was timed, and
its times enter no speed-up.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ...process.process import in_words
from ...timing.budget import Budget
from ...timing.tracing import LINES
from ..probes.passes import NotOffered, Pass, Probing
from .lines import LineTrace
from .operator_times import PASS, OperatorTimes, is_work, kind_of, on_host

if TYPE_CHECKING:
    from ...timing.drivers.driver import Driver

WHAT = "the operators of a step"
TRACE_S = 2.0
"""Seconds that the trace may take: as much for the passes as for reading what they left."""
RESERVED_S = 0.5
"""Seconds that the probes before it leave to it: enough for a pass of 50 ms or less."""
PASSES = 3
"""Passes that are read at most. One more goes before them: the first pays for the tracer."""
OWN = "the script's own profiler is on"
NO_KERNEL = "the tracer saw no kernel on the GPU: CUPTI is missing, or not permitted here"
ASKED = {"KINETO_LOG_LEVEL": "99", "TEARDOWN_CUPTI": "0"}
"""A level above all levels: Kineto reads it when a process first traces, and would else write
"profiler_start" to the user's standard error. And CUPTI is not to be taken down: below CUDA 12.6 a
process with CUDA graphs may crash where it is set up again (torch/profiler/profiler.py)."""


def record(driver: Driver, deadline: float) -> None:
    """Record the event `torch_trace`, or `missing` with the reason why there is none.

    It holds what `Trace` in `model/torch/step.py` has. What is run is the forward of the
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
    if _profiled():
        raise NotOffered(OWN)
    passes = max(1, min(PASSES, int(TRACE_S / 2 / max(one.once, 1e-6)) - 1))
    driver.sync()
    with _quiet(), _profile() as trace:
        for _ in range(1 + passes):
            with profiler.record_function(PASS):
                one()
                driver.sync()
    traced = OperatorTimes(trace.kineto_results.events(), one.device, leave_out=1)
    if one.device == "cuda" and not traced.kernels:
        raise NotOffered(NO_KERNEL)
    if not traced.windows:
        raise NotOffered("the tracer recorded nothing")
    return traced.event()


def _profile() -> Any:
    """Kineto; `torch.profiler.profile` around it imports TorchInductor and sets variables."""
    profiler: Any = sys.modules["torch"].autograd.profiler
    return profiler.profile(use_kineto=True, use_device=device())


def _profiled() -> bool:
    return bool(sys.modules["torch"]._C._autograd._profiler_enabled())


class TorchTracer:
    """Kineto around a few steps of the loop, as `torch.profiler` uses it; see `lines.py`.

    `within` says that steps end within `Optimizer.step`, under a mark of PyTorch's: where the
    tracer was started within such a mark, PyTorch 2.13 crashed in one of seven runs.
    """

    short = True

    def __init__(self, driver: Driver, within: bool = False) -> None:
        self._torch: Any = sys.modules["torch"]
        self._driver = driver
        self.late = bool(driver.device.asynchronous)
        self._within = within
        self._profile: Any = None
        self._lines = LineTrace(driver)

    def refusal(self, asked: bool) -> str:
        """Why it cannot be used now: a profiler of the script's, also one that waits for a step.

        A trace that was `asked` for is made without lines where these cannot be had.
        """
        if (
            _profiled()
            or "ProfilerStep" in self._torch.autograd.profiler.KinetoStepTracker._step_dict
        ):
            return OWN
        reason = self._lines.refusal()
        if reason and asked and not self._within:
            self._lines.over, self._lines.fault = True, reason
            return ""
        return reason

    def outside(self, act: Callable[[], None]) -> None:
        self._lines.boundary()
        if self._within:
            self._lines.outside(act)
        else:
            act()

    def start(self) -> None:
        with _quiet():
            self._profile = _profile().__enter__()

    @contextlib.contextmanager
    def step(self, number: int) -> Iterator[None]:
        """The mark of a step, as `torch.profiler` names it: what reads its traces knows it."""
        mark = self._torch.autograd.profiler.record_function(f"ProfilerStep#{number}")
        with mark, self._lines.step():
            yield

    def stop(self) -> None:
        self.drop()
        self._driver.sync()
        with _quiet():
            self._profile.__exit__(None, None, None)

    def drop(self) -> None:
        self._lines.stop()

    @property
    def full(self) -> bool:
        return self._lines.full

    def save(self, file: str) -> str:
        results = self._profile.kineto_results
        results.save(file)
        kernels = not all(map(on_host, results.events()))
        return "" if kernels or not self._torch.cuda.is_initialized() else NO_KERNEL

    def read(self) -> None:
        """Record the event `torch_lines`, or `missing` with the reason why there is none."""
        cuda = device() == "cuda"
        events = self._profile.kineto_results.events()
        operators = [event for event in events if kind_of(event) == "cpu_op"]
        work = [event for event in events if is_work(event)] if cuda else []
        fault = self._lines.fault or (NO_KERNEL if cuda and not work else "")
        if fault:
            self._driver.record.write("missing", what=LINES, reason=fault)
            return
        with self._torch.no_grad():
            self._driver.record.write("torch_lines", **self._lines.event(operators, work, cuda))


def device() -> str | None:
    """The device whose kernels are traced, None where CUDA is not in use.

    Also where this build of PyTorch cannot trace them: it would put an event around each
    operator in place of that.
    """
    torch: Any = sys.modules["torch"]
    traces = torch.autograd.ProfilerActivity.CUDA in torch._C._autograd._supported_activities()
    return "cuda" if traces and torch.cuda.is_initialized() else None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Kineto logs nothing and keeps CUPTI, and finds the environment as it was afterwards."""
    before = {name: os.environ[name] for name in ASKED if name in os.environ}
    os.environ.update(ASKED)
    try:
        yield
    finally:
        for name in ASKED:
            os.environ.pop(name, None)
        os.environ.update(before)

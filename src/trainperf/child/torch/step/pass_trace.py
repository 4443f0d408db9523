"""Trace a few passes of a PyTorch model: which operators run, and how busy the GPU is.

Tracing slows what is traced, so this is a phase of its own, when all else was timed, and
its times enter no speed-up.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...process.process import in_words
from ...timing.budget import Budget
from ...timing.probing import NotOffered
from ..probes.passes import Pass, Probing
from .operator_times import PASS, OperatorTimes

if TYPE_CHECKING:
    from ...timing.drivers.driver import Driver

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
    if profiled():
        raise NotOffered(PROFILED)
    passes = max(1, min(PASSES, int(TRACE_S / 2 / max(one.once, 1e-6)) - 1))
    driver.sync()
    with quiet(), profile() as trace:
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

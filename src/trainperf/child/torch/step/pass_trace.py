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

from ...timing.budget import Budget
from ..probes.passes import NotOffered, Pass
from ..probes.probing import Probing, text
from .operator_times import PASS, OperatorTimes

if TYPE_CHECKING:
    from ...timing.drivers.loop_drivers import LoopDriver

WHAT = "the operators of a step"
TRACE_S = 2.0
"""Seconds that the trace may take: as much for the passes as for reading what they left."""
RESERVED_S = 0.5
"""Seconds that the probes before it leave to it: enough for a pass of 50 ms or less."""
PASSES = 3
"""Passes that are read at most. One more goes before them: the first pays for the tracer."""
OWN = "the script's own profiler is on"
ASKED = {"KINETO_LOG_LEVEL": "99", "TEARDOWN_CUPTI": "0"}
"""A level above all levels: Kineto reads it when a process first traces, and would else write
"profiler_start" to the user's standard error. And CUPTI is not to be taken down: below CUDA 12.6 a
process with CUDA graphs may crash where it is set up again (torch/profiler/profiler.py)."""


def record(driver: LoopDriver, deadline: float) -> None:
    """Record the event `torch_trace`, or `missing` with the reason why there is none.

    It holds what `Trace` in `model/torch/step.py` has. What is run is the forward of the
    largest trained model on its last arguments and a backward; no weight is changed.
    """
    try:
        if time.monotonic() > deadline:
            raise NotOffered(Budget.of(driver).lacking(TRACE_S, time.monotonic()))
        with _compiling_nothing():
            traced = _trace(driver, Probing(driver, deadline, compiled=True).training_pass(calls=2))
        driver.record.write("torch_trace", **traced)
    except NotOffered as error:
        driver.record.write("missing", what=WHAT, reason=str(error))
    except Exception as error:
        driver.record.write("missing", what=WHAT, reason=text(error))
    driver.record.flush()


def marked_passes(driver: LoopDriver, deadline: float) -> Pass:
    """Run the passes while the tracer is on already; return what they were passes of.

    Raises `NotOffered` where there are none.
    """
    if time.monotonic() > deadline:
        raise NotOffered(Budget.of(driver).lacking(TRACE_S, time.monotonic()))
    with _compiling_nothing():
        one = Probing(driver, deadline, compiled=True).training_pass(calls=2)
        _run(driver, one, 1 + _passes(one))
    return one


def _compiling_nothing() -> Any:
    """Run what was compiled for the script's own steps; where that does not serve, it raises."""
    if "torch._dynamo" not in sys.modules:
        return contextlib.nullcontext()
    torch: Any = sys.modules["torch"]
    return torch.compiler.set_stance("fail_on_recompile")


def _trace(driver: LoopDriver, one: Pass) -> dict[str, Any]:
    return found(_events(driver, one, 1 + _passes(one)), one)


def _passes(one: Pass) -> int:
    """How many passes are read; raises `NotOffered` where they cannot be traced."""
    if one.device not in ("cpu", "cuda"):
        raise NotOffered(f"the tracer is not asked about a {one.device} device")
    if 2 * one.once > TRACE_S / 2:
        raise NotOffered(f"a forward and backward takes {one.once:.2g} s, too long to be traced")
    return max(1, min(PASSES, int(TRACE_S / 2 / max(one.once, 1e-6)) - 1))


def found(events: list[Any], one: Pass) -> dict[str, Any]:
    """The fields of the event `torch_trace`, of the passes among what was traced."""
    traced = OperatorTimes(events, one.device, leave_out=1)
    if one.device == "cuda" and not traced.kernels:
        raise NotOffered("the tracer saw no kernel: CUPTI is missing, or not permitted here")
    if not traced.windows:
        raise NotOffered("the tracer recorded nothing")
    fields = traced.event()
    hip = getattr(sys.modules["torch"].version, "hip", None)
    # The names of AMD's kernels say nothing of its matrix cores that is known here.
    return fields | {"tensor_core_s": None} if hip else fields


def _events(driver: LoopDriver, one: Pass, passes: int) -> list[Any]:
    """The tracer's events of so many passes, each waited for.

    `torch.profiler.profile` wraps this class; it would import TorchInductor and set
    variables of the process's environment.
    """
    import torch

    profiler: Any = torch.autograd.profiler
    if torch._C._autograd._profiler_enabled():
        raise NotOffered(OWN)
    driver.sync()
    with quiet(), profiler.profile(use_kineto=True, use_device=device()) as trace:
        _run(driver, one, passes)
    return list(trace.kineto_results.events())


def _run(driver: LoopDriver, one: Pass, passes: int) -> None:
    import torch

    for _ in range(passes):
        with torch.autograd.profiler.record_function(PASS):
            one()
            driver.sync()


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
    before = {name: os.environ.get(name) for name in ASKED}
    os.environ.update(ASKED)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

"""PyTorch's tracer around a few steps of the loop, for `--trace`."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from ..probes.passes import NotOffered, Pass
from ..probes.probing import text
from . import pass_trace

if TYPE_CHECKING:
    from ...timing.drivers.loop_drivers import LoopDriver

MARK = "ProfilerStep#"
"""As `torch.profiler` names its steps: what reads its traces knows them by it."""
PASSES_S = 10.0
"""So long the passes that are traced behind the steps may take, building them included."""


class TorchTracer:
    """Kineto, as `torch.profiler` uses it, with the passes of `pass_trace` behind the steps.

    So the figures of those passes are read from the very trace that is written.
    """

    def __init__(self, driver: LoopDriver) -> None:
        import torch

        self._torch: Any = torch
        self._driver = driver
        self._profile: Any = None
        self._step: Any = None
        self._passes: Pass | str = "the loop ended before passes of the model were traced"
        self._events: list[Any] = []

    def refusal(self) -> str:
        """Why it cannot be used now: a profiler of the script's, also one that waits for a step."""
        profiler = self._torch.autograd.profiler
        waits = "ProfilerStep" in profiler.KinetoStepTracker._step_dict
        return pass_trace.OWN if waits or self._torch._C._autograd._profiler_enabled() else ""

    def start(self) -> None:
        """Begin to trace."""
        profiler = self._torch.autograd.profiler
        with pass_trace.quiet():
            profile = profiler.profile(use_kineto=True, use_device=pass_trace.device())
            profile.__enter__()
        self._profile = profile

    def step_begins(self, number: int) -> None:
        """Mark the begin of a step."""
        self._step = self._torch.autograd.profiler.record_function(f"{MARK}{number}")
        self._step.__enter__()

    def step_ends(self) -> None:
        """Mark its end."""
        step, self._step = self._step, None
        if step is not None:
            step.__exit__(None, None, None)

    def trace_passes(self) -> None:
        """Have the model's passes traced as well; several ranks leave them out."""
        if self._driver.world is not None:
            return
        try:
            self._passes = pass_trace.marked_passes(self._driver, time.monotonic() + PASSES_S)
        except Exception as error:
            self._passes = str(error) if isinstance(error, NotOffered) else text(error)

    def stop(self) -> int:
        """Wait for the devices, and stop; return how many events there are."""
        self.step_ends()
        profile = self._profile
        self._driver.sync()
        with pass_trace.quiet():
            profile.__exit__(None, None, None)
        self._events = list(profile.kineto_results.events())
        return len(self._events)

    def save(self, folder: str, name: str) -> dict[str, Any]:
        """Write the Chrome trace, and record what the passes show."""
        file = os.path.join(folder, f"{name}.json")
        self._profile.kineto_results.save(file)
        if self._driver.world is None:
            self._record_passes()
        unseen = self._torch.cuda.is_initialized() and not any(map(_on_device, self._events))
        self._events = []
        note = "the tracer saw no kernel on the GPU: CUPTI is missing, or not permitted here"
        return {"events": file, "mark": MARK, "notes": [note] if unseen else []}

    def trace_passes_alone(self) -> None:
        """Trace the passes alone, as without `--trace`."""
        pass_trace.record(self._driver, time.monotonic() + PASSES_S)

    def _record_passes(self) -> None:
        record = self._driver.record
        try:
            if isinstance(self._passes, str):
                raise NotOffered(self._passes)
            record.write("torch_trace", **pass_trace.found(self._events, self._passes))
        except Exception as error:
            reason = str(error) if isinstance(error, NotOffered) else text(error)
            record.write("missing", what=pass_trace.WHAT, reason=reason)


def _on_device(event: Any) -> bool:
    return not str(event.device_type()).endswith("CPU")

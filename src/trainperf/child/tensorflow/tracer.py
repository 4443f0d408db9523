"""TensorFlow's tracer around a few steps of the loop."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from .graph_lines import Graphs, lines_of

if TYPE_CHECKING:
    from ..timing.drivers.driver import Driver

OPTIONS = {"host_tracer_level": 2, "python_tracer_level": 0, "device_tracer_level": 1}
"""Those of `tf.profiler.experimental.start`; calls of Python would be most of the trace."""
STEP = "train"
"""The name of a step's mark; its number follows."""


class TensorFlowTracer:
    """The profiler session behind `tf.profiler.experimental`, with marks around each step."""

    late = True
    full = False

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._session: Any = None
        self._traced = b""
        self._called: list[Any] | None = None
        self.short = _tells(driver)

    def refusal(self, asked: bool) -> str:
        """Why it cannot be used now: there can be one session in a process."""
        from tensorflow.python.profiler import profiler_v2

        return "" if profiler_v2._profiler is None else "the script's own profiler is on"

    def outside(self, act: Callable[[], None]) -> None:
        act()

    def start(self) -> None:
        """Begin to trace. Raises `AlreadyExistsError` where another session is under way."""
        from tensorflow.python.profiler.internal import _pywrap_profiler

        session: Any = _pywrap_profiler.ProfilerSession()
        session.start("", OPTIONS)
        self._session = session
        self._driver.loops.called = []

    def step(self, number: int) -> AbstractContextManager[Any]:
        from tensorflow.python.profiler import trace

        mark: AbstractContextManager[Any] = trace.Trace(f"{STEP} {number}", step_num=number, _r=1)
        return mark

    def stop(self) -> None:
        self._driver.sync()
        self._traced = self._session.stop()
        self._called, self._driver.loops.called = self._driver.loops.called, None

    def drop(self) -> None: ...

    def read(self) -> None:
        """Record what operators of compiled graphs take, and from which lines those were called."""
        driver = self._driver
        found = lines_of(self._trace(), STEP, Graphs(driver.loops.origins))
        if found is not None:
            fit = driver.loops.fit_call if driver.kind == "fit" else None
            called = self._called or ([] if fit is None else [fit[0]])
            driver.record.write("graph_lines", called=called, **found)

    def save(self, file: str) -> str:
        with open(file, "w", encoding="utf-8") as out:
            json.dump({"traceEvents": list(_events(self._trace()))}, out)
        return ""

    def _trace(self) -> Any:
        from tensorflow.tsl.profiler.protobuf import trace_events_pb2

        return trace_events_pb2.Trace.FromString(self._traced)


def _tells(driver: Driver) -> bool:
    """Whether a trace tells the lines of operators.

    Not of a GPU, whose kernels bear no names of operators, nor of what XLA compiles.
    """
    model = getattr(driver, "model", None)
    compiled = [getattr(each, "_jit_compile", None) for each in driver.loops.marked.values()]
    if model is not None and not model.run_eagerly:
        compiled.append(getattr(model, "jit_compile", None))
    return not all(compiled) and not driver.device.asynchronous


def _events(trace: Any) -> Iterator[dict[str, Any]]:
    """The events of a trace: a device is a process, a resource of it a thread; µs."""
    for device in trace.devices.values():
        of = {"ph": "M", "pid": device.device_id}
        yield {**of, "name": "process_name", "args": {"name": device.name}}
        for resource in device.resources.values():
            of["tid"] = resource.resource_id
            yield {**of, "name": "thread_name", "args": {"name": resource.name}}
    for event in trace.trace_events:
        yield {
            "ph": "X",
            "name": event.name,
            "pid": event.device_id,
            "tid": event.resource_id,
            "ts": event.timestamp_ps / 1e6,
            "dur": event.duration_ps / 1e6,
            "args": dict(event.args),
        }

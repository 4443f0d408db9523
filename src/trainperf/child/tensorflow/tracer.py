"""TensorFlow's tracer around a few steps of the loop, for `--trace`."""

from __future__ import annotations

import glob
import os
import shutil
from typing import TYPE_CHECKING, Any

from . import planes

if TYPE_CHECKING:
    from ..timing.drivers.loop_drivers import LoopDriver

OPTIONS = {"host_tracer_level": 2, "python_tracer_level": 0, "device_tracer_level": 1}
"""Those of `tf.profiler.experimental.start`. Calls of Python functions are left out: they would
be most of the trace, and the lines of the user's are sampled beside it."""
STEP = "train"
"""The name of a step's mark; XProf knows steps by their `step_num` and `_r` alone."""
UNREAD = "the tracer's events are in the profile for TensorBoard only: {error}"


class TensorFlowTracer:
    """The profiler session behind `tf.profiler.experimental`, with marks around each step.

    The functions of that name are not called: those that keep the script's own files away
    would send the profile elsewhere.
    """

    def __init__(self, driver: LoopDriver) -> None:
        self._driver = driver
        self._session: Any = None
        self._trace: Any = None
        self._sessions = 0

    def refusal(self) -> str:
        """Why it cannot be used now: there can be one session in a process."""
        from tensorflow.python.profiler import profiler_v2

        return "" if profiler_v2._profiler is None else "the script's own profiler is on"

    def start(self) -> None:
        """Begin to trace. Raises `AlreadyExistsError` where another session is under way."""
        from tensorflow.python.profiler.internal import _pywrap_profiler

        self._sessions += 1
        session: Any = _pywrap_profiler.ProfilerSession()
        session.start(self._folder(), OPTIONS)
        self._session = session

    def step_begins(self, number: int) -> None:
        """Mark the begin of a step."""
        from tensorflow.python.profiler import trace

        self._trace = trace.Trace(STEP, step_num=number, _r=1)
        self._trace.__enter__()

    def step_ends(self) -> None:
        """Mark its end."""
        mark, self._trace = self._trace, None
        if mark is not None:
            mark.__exit__(None, None, None)

    def trace_passes(self) -> None:
        """Nothing else is read from the trace."""

    def stop(self) -> int:
        """Wait for the devices, and stop; return how many events there are, 0 if not known."""
        self.step_ends()
        self._driver.sync()
        session, self._session = self._session, None
        session.export_to_tb()
        try:
            return planes.count(self._written())
        except ImportError:
            return 0

    def save(self, folder: str, name: str) -> dict[str, Any]:
        """Write the Chrome trace; the profile is there already."""
        for number in range(1, self._sessions):  # the one that paid for the tracer's start
            shutil.rmtree(self._folder(number), ignore_errors=True)
        left: dict[str, Any] = {"profile": self._folder(), "mark": planes.MARK, "notes": []}
        file = os.path.join(folder, f"{name}.json")
        try:
            planes.convert(self._written(), file, STEP)
        except Exception as error:
            left["notes"].append(UNREAD.format(error=f"{type(error).__name__}: {error}"[:200]))
        else:
            left["events"] = file
        return left

    def trace_passes_alone(self) -> None:
        """Nothing of the verdict rests on it."""

    def _folder(self, number: int | None = None) -> str:
        folder = self._driver.process.settings["folder"]
        return os.path.join(folder, f"profile-{os.getpid()}-{number or self._sessions}")

    def _written(self) -> str:
        found = glob.glob(os.path.join(self._folder(), "plugins", "profile", "*", "*.xplane.pb"))
        if not found:
            raise RuntimeError("the tracer wrote nothing")
        return found[0]

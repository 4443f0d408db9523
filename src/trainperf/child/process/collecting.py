"""Garbage collections of the interpreter, timed by the callbacks that it makes around each."""

from __future__ import annotations

import gc
import time
from typing import Any

OLDEST = 2
"""The generation whose collection goes through all objects (before Python 3.14 and after)."""


class Collections:
    """Seconds that collections took in steps, and how many went through all objects.

    They stop all threads of Python, whichever one sets them off. `counted` is what so many steps
    took of them.
    """

    def __init__(self) -> None:
        self._seconds = 0.0
        self._full = 0
        self._began: float | None = None
        self.counted = {"seconds": 0.0, "full": 0, "steps": 0}

    def watch(self) -> None:
        """Begin to time them."""
        gc.callbacks.append(self._called)

    def end(self) -> None:
        """Leave the interpreter as it was; more than once does nothing."""
        if self._called in gc.callbacks:
            gc.callbacks.remove(self._called)

    def step_ended(self, counts: bool) -> None:
        """Take what was collected since the last step's end as that of a step, if it `counts`."""
        if counts:
            self.counted["seconds"] += self._seconds
            self.counted["full"] += self._full
            self.counted["steps"] += 1
        self._seconds, self._full = 0.0, 0

    def _called(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._began = time.monotonic()
        elif self._began is not None:
            self._seconds += time.monotonic() - self._began
            self._full += info.get("generation") == OLDEST
            self._began = None

"""Where the program is: at which line of the user's its main thread stands, now and then.

Of a run that is given up this is all there is to say: a download that hangs, a lock, a first step
that takes longer than the budget.
"""

from __future__ import annotations

import os
import sys
import threading
from types import FrameType

from .frames import is_users, line_of
from .recorder import Recorder
from .stacks import no_collection


class Whereabouts:
    """Looks where the main thread is, and records it where that has changed."""

    def __init__(self, record: Recorder) -> None:
        self._record = record
        self._last: tuple[str, int, str, str] | None = None
        self._main = threading.main_thread().ident or 0

    def look(self) -> None:
        """Record the line, its function, and what that has called. Never raises."""
        try:
            with no_collection():
                place = _of(sys._current_frames().get(self._main))
        except Exception:  # a frame that its thread was just replacing
            return
        if place is not None and place != self._last:
            self._last = place
            file, line, function, into = place
            self._record.write("at", file=file, line=line, function=function, into=into)


def _of(frame: FrameType | None) -> tuple[str, int, str, str] | None:
    into = ""
    while frame is not None:
        code = frame.f_code
        if is_users(code.co_filename):
            return os.path.abspath(code.co_filename), line_of(frame), code.co_name, into
        into, frame = code.co_name, frame.f_back
    return None

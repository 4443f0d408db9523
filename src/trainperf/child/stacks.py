"""Sample the Python stacks of this process: which of the user's functions time passes in.

Runs on a thread of its own during one phase whose times enter no figure.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from .frames import WRAPPERS, is_users

INTERVAL_S = 0.004
INLINE = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")
"""Frames of comprehensions: their time is that of the function they stand in."""

FROZEN = "<frozen "
"""How the file of a module that is frozen into Python begins: `importlib`, `posixpath`."""


class StackSampler:
    """Counts, per thread role, the innermost frame of the user's every few ms.

    Nothing is counted while `over` says that the loop has ended: what runs then is not its.
    """

    def __init__(
        self, interval_s: float = INTERVAL_S, over: Callable[[], bool] = lambda: False
    ) -> None:
        self._interval = interval_s
        self._over = over
        self._stop = threading.Event()
        self._started = False
        self._main = threading.main_thread().ident
        self._counts: Counter[tuple[str, str, int, str, int, str]] = Counter()
        self.samples = 0
        self._thread = threading.Thread(target=self._run, name="trainperf-stacks", daemon=True)

    def start(self) -> None:
        """Begin to sample; until the thread runs, the one that waits for it does our work."""
        self._thread.start()
        self._started = True

    def stop(self) -> list[dict[str, Any]]:
        """Stop, and return the counts, most frequent first."""
        self._stop.set()
        self._thread.join(2.0)
        return [
            {
                "thread": thread,
                "file": file,
                "def": first,
                "function": function,
                "line": line,
                "into": into,
                "n": n,
            }
            for (thread, file, first, function, line, into), n in self._counts.most_common(200)
        ]

    def _run(self) -> None:
        own = threading.get_ident()
        while not self._stop.wait(self._interval):
            try:
                if not self._started or self._over():
                    continue
                with _no_collection():
                    self._sample(own)
            except Exception:  # a frame that its thread was just replacing, a module of odd names
                continue
            self.samples += 1

    def _sample(self, own: int) -> None:
        for ident, frame in sys._current_frames().items():
            if ident != own:
                self._count("main" if ident == self._main else "worker", frame)

    def _count(self, thread: str, frame: FrameType | None) -> None:
        """Count the user's innermost frame, unless what runs beneath it is our own work.

        That is known by what a hook of ours calls: imports and paths are modules frozen into
        Python, and nothing that hooks are set around is.
        """
        into = below = ""
        while frame is not None:
            code = frame.f_code
            if is_users(code.co_filename) and code.co_name not in INLINE:
                name = code.co_qualname.rpartition("<locals>.")[2]
                key = (thread, code.co_filename, code.co_firstlineno, name)
                self._counts[(*key, frame.f_lineno, into)] += 1
                return
            ours = "_trainperf" in frame.f_globals.get("__name__", "")
            if ours and below.startswith(FROZEN):
                return
            if not ours and code.co_name not in WRAPPERS:
                into = code.co_name
            below = code.co_filename
            frame = frame.f_back


@contextmanager
def _no_collection() -> Iterator[None]:
    """No collection of garbage in here, before Python 3.12.

    There a collection may begin wherever an object is made, also where a frame of another
    thread is made visible; a finalizer then lets that thread run on, and the frame go.
    """
    off = sys.version_info < (3, 12) and gc.isenabled()
    if off:
        gc.disable()
    try:
        yield
    finally:
        if off:
            gc.enable()

"""Sample which lines of the user's the threads stand at, each sample with its time."""

from __future__ import annotations

import sys
import threading
import time
from types import FrameType
from typing import Any

from .frames import is_users, line_of
from .stacks import INLINE, SWITCH_S, no_collection

INTERVAL_S, SHORTEST_S = 0.002, 0.0005
MOST = 5000
"""So many samples are taken of each thread at most: ten seconds of them, two and a half of the
quickest."""
DEEPEST = 30
"""Frames of the user's that a sample keeps, the innermost ones."""


class LineSampler:
    """Samples the lines of the user's that each thread stands at, every 2 ms or oftener.

    Ten times in `step_s` where that is oftener, at most every 0.5 ms. Times are on
    `time.monotonic()`. Runs while steps are traced, whose times enter no figure.
    """

    def __init__(self, step_s: float = 1.0) -> None:
        self._interval_s = min(INTERVAL_S, max(SHORTEST_S, step_s / 10))
        self._stop = threading.Event()
        self._switch = sys.getswitchinterval()
        self._places: dict[tuple[str, int, str], int] = {}
        self._threads: dict[int, list[tuple[float, tuple[int, ...]]]] = {}
        self._thread = threading.Thread(target=self._run, name="trainperf-lines", daemon=True)

    def start(self) -> None:
        """Begin to sample."""
        self._switch = sys.getswitchinterval()
        sys.setswitchinterval(min(SWITCH_S, self._switch))
        self._thread.start()

    def stop(self) -> dict[str, Any]:
        """Stop; return what was seen, with the `interval_s` of its samples.

        `places` are (file, line, function), `threads` have their name and their `samples`:
        a time, and the numbers of the places on the stack, the outermost first.
        """
        if not self._stop.is_set():
            sys.setswitchinterval(self._switch)
        self._stop.set()
        self._thread.join(2.0)
        main = threading.main_thread().ident
        names = {one.ident: one.name for one in threading.enumerate()}
        return {
            "interval_s": self._interval_s,
            "places": [list(one) for one in self._places],
            "threads": [
                {"id": ident, "name": names.get(ident, ""), "main": ident == main, "samples": seen}
                for ident, seen in self._threads.items()
                if any(stack for _, stack in seen)
            ],
        }

    def _run(self) -> None:
        own = threading.get_ident()
        while not self._stop.wait(self._interval_s):
            try:
                with no_collection():
                    self._sample(own)
            except Exception:  # a frame that its thread was just replacing
                continue

    def _sample(self, own: int) -> None:
        now = time.monotonic()
        for ident, frame in sys._current_frames().items():
            seen = self._threads.setdefault(ident, [])
            if ident != own and len(seen) < MOST:
                seen.append((now, self._stack(frame)))

    def _stack(self, frame: FrameType | None) -> tuple[int, ...]:
        found: list[int] = []
        while frame is not None and len(found) < DEEPEST:
            code = frame.f_code
            if is_users(code.co_filename) and code.co_name not in INLINE:
                place = (code.co_filename, line_of(frame), code.co_qualname)
                found.append(self._places.setdefault(place, len(self._places)))
            frame = frame.f_back
        return tuple(reversed(found))

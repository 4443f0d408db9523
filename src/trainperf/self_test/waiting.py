"""How long the main threads of the processes that we started waited for a core."""

from __future__ import annotations

import math
import threading
import time

import psutil

EVERY_S = 0.25
NANO = 1e-9


class Waiting:
    """Reads what the scheduler counts (`/proc/PID/schedstat`) while it is open.

    Of each process that this one started, and of its main thread alone: that is where a step
    runs, and what it waits for a core makes the step longer.
    """

    def __init__(self) -> None:
        self._seen: list[tuple[float, float]] = [(time.monotonic(), 0.0)]
        self._last: dict[int, int] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trainperf-waiting", daemon=True)

    def __enter__(self) -> Waiting:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._closed.set()
        self._thread.join()

    def share(self, since: float, until: float = math.inf) -> float:
        """Seconds waited for each second from `since` to `until` (`time.monotonic()`).

        0 where the kernel does not count it.
        """
        inside = [one for one in self._seen if since <= one[0] <= until]
        if len(inside) < 2:
            return 0.0
        return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0])

    def _run(self) -> None:
        while not self._closed.wait(EVERY_S):
            self._read()

    def _read(self) -> None:
        found: dict[int, int] = {}
        try:
            children = psutil.Process().children()
        except psutil.Error:
            return
        for child in children:
            try:
                with open(f"/proc/{child.pid}/schedstat", encoding="ascii") as file:
                    found[child.pid] = int(file.read().split()[1])
            except (OSError, ValueError, IndexError):  # it ended, or the kernel does not count
                continue
        more = sum(max(0, now - self._last.get(pid, now)) for pid, now in found.items())
        self._last = found
        self._seen.append((time.monotonic(), self._seen[-1][1] + more * NANO))

"""How long the main threads of the processes that we started waited for a core."""

from __future__ import annotations

import math
import threading
import time

import psutil

from trainperf.samplers.contention import NANO, schedstat

EVERY_S = 0.25


class Waiting:
    """Reads what the scheduler counts (`/proc/PID/schedstat`) while it is open.

    Of each process that this one started, and of its main thread alone: that is where a step
    runs, and what it waits for a core makes the step longer.
    """

    def __init__(self) -> None:
        own = schedstat("/proc/self")
        self._counted = own is not None and own[0] > 0
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

    def share(self, since: float, until: float = math.inf) -> float | None:
        """Seconds waited for each second from `since` to `until` (`time.monotonic()`).

        None where the kernel does not count it, or it was read no two times meanwhile.
        """
        inside = [one for one in self._seen if since <= one[0] <= until]
        if not self._counted or len(inside) < 2:
            return None
        return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0])

    def _run(self) -> None:
        while not self._closed.wait(EVERY_S):
            self._read()

    def _read(self) -> None:
        try:
            children = psutil.Process().children()
        except psutil.Error:
            return
        counts = {child.pid: schedstat(f"/proc/{child.pid}") for child in children}
        found = {pid: one[1] for pid, one in counts.items() if one is not None}
        more = sum(max(0, now - self._last.get(pid, now)) for pid, now in found.items())
        self._last = found
        self._seen.append((time.monotonic(), self._seen[-1][1] + more * NANO))

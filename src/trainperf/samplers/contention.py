"""How long the script's threads wait for a core, and how many cores others keep busy.

Counted by the kernel and read by the parent: the observed process pays nothing for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import psutil

NANO = 1e-9


class RunQueue:
    """Counts of the scheduler for each thread (`/proc/PID/task/TID/schedstat`), in sum."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, int]] = {}

    def read(self, pids: Iterable[int]) -> tuple[float, float] | None:
        """Seconds that all threads of `pids` ran, and were ready to but had to wait for a core.

        Since the last reading; None if not counted. A thread that ended in between is lost, one
        that began counts from its begin; the first reading is of no use but for the next.
        """
        found: dict[str, tuple[int, int]] = {}
        for pid in pids:
            folder = f"/proc/{pid}/task"
            with suppress(OSError):  # it is gone
                counts = {task: schedstat(f"{folder}/{task}") for task in os.listdir(folder)}
                found |= {task: count for task, count in counts.items() if count is not None}
        before, self._last = self._last, found
        if not before or not any(running for running, _ in found.values()):
            return None
        running = waiting = 0
        for thread, now in found.items():
            then = before.get(thread, (0, 0))
            running += max(0, now[0] - then[0])
            waiting += max(0, now[1] - then[1])
        return running * NANO, waiting * NANO


def schedstat(folder: str) -> tuple[int, int] | None:
    """Nanoseconds on a core and waiting for one, of the thread that `folder` in /proc is of.

    None if it has ended, or the kernel does not count.
    """
    try:
        with open(f"{folder}/schedstat", encoding="ascii") as file:
            running, waiting, *_ = file.read().split()
        return int(running), int(waiting)
    except (OSError, ValueError):
        return None


def taken_seconds() -> float | None:
    """Seconds that the cores this process may use were busy, or taken by a hypervisor.

    They are the script's as well. None if not told.
    """
    try:
        times = psutil.cpu_times(percpu=True)
        allowed = os.sched_getaffinity(0)
    except (OSError, AttributeError, NotImplementedError, psutil.Error):
        return None
    mine = [core for number, core in enumerate(times) if number in allowed] or times
    return sum(busy_seconds(core) + float(getattr(core, "steal", 0.0)) for core in mine)


def busy_seconds(times: Any) -> float:
    """Seconds that cores were busy, without what a hypervisor gave to others.

    Guest time is in user time already.
    """
    return float(times.user + times.nice + times.system + times.irq + times.softirq)


def busy_cores(seconds: float) -> float | None:
    """How many of the allowed cores are busy, or stolen, over the next so many seconds.

    To be asked while nothing of ours runs. None where it is not told.
    """
    before, began = taken_seconds(), time.monotonic()
    time.sleep(seconds)
    now, elapsed = taken_seconds(), time.monotonic() - began
    return None if before is None or now is None else (now - before) / elapsed

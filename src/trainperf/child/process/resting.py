"""Wait until what runs in the background of this process has nothing left to do."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import process

LOOK_S = 0.03
REST = 0.15
"""Cores in use or waited for, by this process and its workers, below which they rest."""


def rests(
    most_s: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    used: Callable[[], float] | None = None,
) -> bool:
    """Wait for at most so many seconds; return whether nothing is computed any more.

    For the thread that asks nothing else may be under way: then what is computed here is what
    threads and worker processes prepare, until their buffers are full.
    """
    used = used or Busy().seconds
    until = clock() + most_s
    at, before = clock(), used()
    while True:
        sleep(LOOK_S)
        now, after = clock(), used()
        if after - before < REST * (now - at):
            return True
        if now >= until:
            return False
        at, before = now, after


class Busy:
    """For how long the threads of this process and of its living workers have computed, or have
    waited for a core to do so; the thread that asks is left out.

    Beside busy neighbours they wait most of the time, and do not rest.
    """

    def __init__(self) -> None:
        self._before: dict[str, float] = {}
        self._seconds = 0.0

    def seconds(self) -> float:
        """Their seconds so far, those of threads that ended since they were looked at included."""
        own = f"{os.getpid()}/task/{threading.get_native_id()}"
        now = dict[str, float]()
        for pid in (os.getpid(), *_workers()):
            now[str(pid)] = _computed_s(pid) - (time.thread_time() if pid == os.getpid() else 0.0)
            now |= {name: seconds for name, seconds in _waited_s(pid) if name != own}
        for name, seconds in now.items():
            self._seconds += max(0.0, seconds - self._before.get(name, 0.0))
        self._before = now
        return self._seconds


def _workers() -> list[int]:
    return [each.pid for each in tuple(process._children) if each.pid]  # type: ignore[attr-defined]


def _computed_s(pid: int) -> float:
    """Seconds that a process has computed, by its own clock (`clock_getcpuclockid`), which is
    read as of now: what the scheduler has counted lags behind."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def _waited_s(pid: int) -> Iterator[tuple[str, float]]:
    """Seconds that each thread of a process waited for a core; none where they are not counted."""
    try:
        names = [f"{pid}/task/{thread}" for thread in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return
    for name in names:
        try:
            with open(f"/proc/{name}/schedstat", "rb") as file:
                yield name, int(file.read().split()[1]) / 1e9
        except (OSError, ValueError, IndexError):  # it has just ended
            continue

"""Wait until what runs in the background of this process has nothing left to do."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from multiprocessing import process

LOOK_S = 0.03
REST = 0.15
"""Cores in use, by this process and its workers, below which they rest."""


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
    used = used or cpu_s
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


def cpu_s() -> float:
    """Seconds that this process and its living workers have computed."""
    return time.process_time() + sum(map(_of, _workers()))


def _workers() -> list[int]:
    return [each.pid for each in tuple(process._children) if each.pid]  # type: ignore[attr-defined]


def _of(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

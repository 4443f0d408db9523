"""Wait until what runs in the background of this process has nothing left to do."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
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
    used = used or busy_s
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


def busy_s() -> float:
    """Seconds for which the threads of this process and of its living workers have computed, or
    have waited for a core to do so; the thread that asks is left out.

    Beside busy neighbours they wait most of the time, and do not rest.
    """
    own = str(threading.get_native_id())
    return sum(_of(pid, own) for pid in (os.getpid(), *_workers()))


def _workers() -> list[int]:
    return [each.pid for each in tuple(process._children) if each.pid]  # type: ignore[attr-defined]


def _of(pid: int, left_out: str) -> float:
    found = 0
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return 0.0
    for thread in threads:
        try:
            if thread != left_out:
                with open(f"/proc/{pid}/task/{thread}/schedstat", "rb") as file:
                    computed, waited, _ = file.read().split()
                found += int(computed) + int(waited)
        except (OSError, ValueError):  # it has just ended, or the kernel does not count them
            continue
    return found / 1e9 if found else _computed_s(pid)


def _computed_s(pid: int) -> float:
    """Seconds that a process has computed, where its threads' waiting is not counted."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

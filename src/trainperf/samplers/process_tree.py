"""A process, its descendants, and what they have used since they were first seen."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Totals:
    """Sums over a process tree. `cpu_s` never falls; `read_bytes` is None if denied."""

    cpu_s: float
    rss: int
    processes: int
    threads: int
    read_bytes: int | None


@dataclass(frozen=True)
class _Usage:
    own_s: float
    reaped_s: float  # of children that have ended and were waited for
    rss: int
    threads: int
    read_bytes: int | None  # None if denied
    zombie: bool = False


class ProcessTree:
    """The processes that descend from `pid` or stand in the session it leads.

    A process once seen stays in the tree when its parent ends. Only a daemon that
    starts a session of its own and loses its parent between two reads is missed.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._leads = _told(os.getsid, pid) == pid
        self._members: dict[int, psutil.Process] = {}
        self._strangers: set[int] = set()
        self._last: dict[psutil.Process, _Usage] = {}
        self._cpu_s = 0.0

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes that were found at the last reading."""
        return tuple(self._members)

    def read(self) -> Totals:
        """Find the processes and add up what they use."""
        self._find()
        members = self._members.values()
        used = {process: _usage(process, self._last.get(process)) for process in members}
        usage = {process: found for process, found in used.items() if found is not None}
        self._members = {process.pid: process for process in usage}
        self._cpu_s += self._cpu_since(usage)
        self._last = usage
        found = usage.values()
        read = [process.read_bytes for process in found if process.read_bytes is not None]
        return Totals(
            cpu_s=self._cpu_s,
            rss=sum(process.rss for process in found),
            processes=sum(not process.zombie for process in found),
            threads=sum(process.threads for process in found),
            # The kernel adds what a reaped child read to its parent, so these sums
            # go on when a child ends. A sum that lacks a process would be too low.
            read_bytes=None if len(read) < len(usage) else sum(read),
        )

    def _cpu_since(self, usage: dict[psutil.Process, _Usage]) -> float:
        """CPU seconds between the last reading and `usage`, with ended processes in it.

        What a child used is added to its parent when it is waited for. Of that, the
        part seen while the child lived is taken off again, so that only the rest
        counts: its last moments, and children too short-lived to be seen at all.
        """
        seconds = reaped = 0.0
        for process, now in usage.items():
            before = self._last.get(process)
            if before is None:
                seconds += now.own_s + now.reaped_s
            else:
                seconds += max(0.0, now.own_s - before.own_s)
                reaped += max(0.0, now.reaped_s - before.reaped_s)
        gone = sum(
            one.own_s + one.reaped_s for process, one in self._last.items() if process not in usage
        )
        return seconds + max(0.0, reaped - gone)

    def _find(self) -> None:
        alive = psutil.pids()
        self._strangers.intersection_update(alive)
        new = {pid for pid in alive if pid not in self._members and pid not in self._strangers}
        parents = {pid: _told(lambda p: psutil.Process(p).ppid(), pid) for pid in new}
        more = new & {self._pid}
        if self._leads:
            more |= {p for p in new if _told(os.getsid, p) == self._pid}
        more |= {pid for pid, parent in parents.items() if parent in self._members}
        ours = set[int]()
        while more:  # a grandchild may have a smaller number than its parent
            ours |= more
            more = {pid for pid in new - ours if parents[pid] in ours}
        self._strangers |= new - ours
        for pid in ours:
            with suppress(psutil.Error):
                self._members[pid] = psutil.Process(pid)


def _usage(process: psutil.Process, before: _Usage | None) -> _Usage | None:
    """Return what `process` uses, or None if it is gone.

    One that has ended but was not waited for still holds its times: its parent gets
    them only later.
    """
    try:
        with process.oneshot():
            if not process.is_running():
                return None
            times = process.cpu_times()
            own, reaped = times.user + times.system, times.children_user + times.children_system
            if process.status() == psutil.STATUS_ZOMBIE:
                read = 0 if before is None else before.read_bytes
                return _Usage(own, reaped, 0, 0, read, zombie=True)
            rss, threads = process.memory_info().rss, process.num_threads()
            read = _told(lambda: int(process.io_counters().read_bytes))
            return _Usage(own, reaped, rss, threads, read)
    except psutil.Error:
        return None


def _told(ask: Callable[..., int], *about: int) -> int | None:
    """What the system says of a process; None where it is gone, or this is denied."""
    try:
        return ask(*about)
    except (psutil.Error, OSError, NotImplementedError, AttributeError):
        return None

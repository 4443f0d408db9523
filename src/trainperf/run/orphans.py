"""Daemons that left the session of their run, and its environment: trainperf adopts them.

Nothing tells such a one from any other, but whose child it becomes: while there are runs trainperf
takes what is orphaned below it (`PR_SET_CHILD_SUBREAPER`), and ends what is left when they are
over. Its guard remembers whom it has taken, for the case that trainperf is killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress
from pathlib import Path

import psutil

from trainperf.run.owner import began

GUARD = "GUARD_OF_RUNS"
"""The variable that tells a guard where its source is."""
PR_SET_CHILD_SUBREAPER = 36
GONE_S = 5.0


def alive(process: psutil.Process) -> bool:
    """Whether it still runs; a zombie waits for its parent and is none of ours."""
    with suppress(psutil.Error):
        return bool(process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD))
    return False


def send(process: psutil.Process, number: signal.Signals) -> None:
    """Send a signal to a process, if it is still there."""
    with suppress(psutil.Error, OSError):
        process.send_signal(number)


class Orphans:
    """What the processes of runs leave to run on, as children of this process from now on."""

    def __init__(self) -> None:
        self._before: set[psutil.Process] = set()
        _take(True)
        with suppress(psutil.Error, OSError):
            self._before = set(psutil.Process().children())

    def end(self) -> None:
        """End those that came since, and adopt no more.

        A run's own process carries `TRAINPERF_RUN`, and was waited for once it ended; whatever
        else this process starts stays in its session, but for guards.
        """
        with suppress(psutil.Error, OSError):
            for child in psutil.Process().children():
                with suppress(psutil.Error, OSError):
                    if child in self._before or os.getsid(child.pid) == os.getsid(0):
                        continue
                    if not alive(child):
                        os.waitpid(child.pid, os.WNOHANG)
                    elif not _is_named(child):
                        _kill(child)
                        child.wait(GONE_S)
        _take(False)


class Adopted:
    """The orphans that the parent of this process has taken: to be ended if it is killed.

    By then they are somebody else's children, so they are looked for meanwhile.
    """

    def __init__(self) -> None:
        self._parent = os.getppid()
        self._session = _session(self._parent)
        self._since = began(os.getpid()) or 0
        self._seen: dict[int, int] = {}

    def look(self) -> None:
        """Remember those that are there now, and forget those that are not."""
        found = {pid: began(pid) or 0 for pid in self._children()}
        if os.getppid() == self._parent:  # when it has ended, all of them are another's
            self._seen = {
                pid: ticks
                for pid, ticks in found.items()
                if ticks >= self._since and _session(pid) not in (self._session, None)
            }

    def end(self) -> None:
        """End those that were seen last, with whatever they have started."""
        for pid, ticks in self._seen.items():
            with suppress(psutil.Error, OSError):
                child = psutil.Process(pid)
                if began(pid) == ticks and alive(child) and not _is_named(child):
                    _kill(child)

    def _children(self) -> list[int]:
        """The children of its main thread, which adopts; none where the kernel does not tell."""
        with suppress(OSError, ValueError):
            path = Path(f"/proc/{self._parent}/task/{self._parent}/children")
            return list(map(int, path.read_text("ascii").split()))
        return []


def _is_named(process: psutil.Process) -> bool:
    """Whether a process is one of a run by its environment, or a guard: others end those."""
    return bool(process.environ().keys() & {"TRAINPERF_RUN", GUARD})


def _kill(process: psutil.Process) -> None:
    for one in (*process.children(recursive=True), process):
        send(one, signal.SIGKILL)


def _session(pid: int) -> int | None:
    with suppress(OSError):
        return os.getsid(pid)
    return None


def _take(taken: bool) -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(taken))

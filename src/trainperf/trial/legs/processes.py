"""The processes of a leg, as `/proc` shows them, and all of them stopped and woken."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress

ENDED = ("Z", "X")


class Processes:
    """The processes of one leg, which are stopped and woken together.

    `started` is the number of the one that trainperf started, the leader of its session;
    `others` are all that were stopped last.
    """

    def __init__(self, started: int, run_file: str) -> None:
        self.others: list[int] = []
        self._started = started
        self._run_file = run_file
        self._sessions: set[int] = set()
        self._training: list[int] = []

    def find(self, training: Iterable[int]) -> None:
        """Find what trains, and the sessions that launchers have put it into."""
        pids = [pid for pid in training if carries(pid, self._run_file)]
        self._training = pids or [self._started]
        # launchers put each rank into a session of its own
        own = {stat(pid)[1] for pid in _all() if carries(pid, self._run_file)}
        self._sessions = {self._started} | (own - {0, os.getsid(0)})

    def stop(self) -> None:
        """Stop all of them."""
        # What started the ranks comes first: it must not take them for dead or hanging.
        states = {pid: stat(pid) for pid in _all()}
        alive = [
            pid
            for pid, (state, session) in states.items()
            if session in self._sessions and state not in ENDED
        ]
        self.others = sorted(alive, key=lambda pid: pid != self._started)
        for pid in self.others:
            send(pid, signal.SIGSTOP)

    def wake(self) -> None:
        """Let all of them go on."""
        with suppress(OSError):
            os.killpg(self._started, signal.SIGCONT)
        for pid in self.others:
            send(pid, signal.SIGCONT)

    def is_stopped(self) -> bool:
        """Whether one that trains is stopped."""
        return any(stat(pid)[0] == "T" for pid in self._training)

    def gone(self) -> list[int]:
        """Those that trained and have ended."""
        return [pid for pid in self._training if has_ended(pid)]


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or only waits for its parent to notice."""
    return stat(pid)[0] in ENDED


def _all() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def stat(pid: int) -> tuple[str, int]:
    """State and session of a process, as in proc(5); ("X", 0) if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return fields[0].decode(), int(fields[3])
    except (OSError, IndexError, ValueError):
        return "X", 0


def carries(pid: int, run_file: str) -> bool:
    """Whether a process is one of the run: numbers from inside a container are not ours."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return b"TRAINPERF_RUN=" + os.fsencode(run_file) in file.read().split(b"\0")
    except OSError:
        return False


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process, if it is still there."""
    with suppress(OSError):
        os.kill(pid, number)

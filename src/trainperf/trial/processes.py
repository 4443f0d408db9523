"""The processes of a leg, as `/proc` shows them."""

from __future__ import annotations

import os
import signal
from contextlib import suppress


def session_of(leader: int) -> list[int]:
    """The processes of a session, without those that have ended."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            state, session = stat(int(name))
            if session == leader and state not in ("Z", "X"):
                found.append(int(name))
    return found


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


def signal_name(number: int) -> str:
    """The name of a signal, as `kill -l` has it."""
    try:
        return signal.Signals(number).name
    except ValueError:  # one of the numbered ones
        return f"signal {number}"


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process, if it is still there."""
    with suppress(OSError):
        os.kill(pid, number)

"""Whose processes are whose, told by clocks that nobody sets."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_ENDED = (b"Z", b"X")


def machine() -> str:
    """What tells this machine, since it was started, and this pid namespace from others; "" if
    that is not known.
    """
    with suppress(OSError):
        started = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{started} {os.readlink('/proc/self/ns/pid')}"
    return ""


def began(pid: int) -> int | None:
    """When a process began, in ticks since the machine was started; None if there is none.

    The kernel counts them by a clock that nobody sets. The time of day would be another one
    after the clock was set right, and a run that goes on would be taken for one that is over.
    """
    with suppress(IndexError, ValueError):
        return int(_fields(pid)[19])
    return None


def is_gone(pid: int, ticks: int) -> bool:
    """Whether the process with this number that began then is gone, or waits for its parent only.

    One that may not be looked at is there.
    """
    if _hidden(pid):
        return False
    fields = _fields(pid)
    return not fields or fields[0] in _ENDED or began(pid) != ticks


def _fields(pid: int) -> list[bytes]:
    """What the kernel tells of a process behind its name, its state first; see proc(5)."""
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()
    return []


def _hidden(pid: int) -> bool:
    """Whether there is such a process, but not for us to see (`hidepid`)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return began(pid) is None
    return False

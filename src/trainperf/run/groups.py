"""A control group of a run's own: whoever is started in it ends with it, however it hides.

It is a child of the group that trainperf itself is in, of version 2, so that all limits of that
one hold in it. No controller is switched on, and none but the run's own processes are moved. Its
name tells the run and its owner, so that one is found whose trainperf and guard were killed.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from trainperf.run.view import mounts
from trainperf.samplers.levels import counters, levels, text

_NAME = re.compile(r"trainperf-(?P<run>[0-9a-f]{16})-(?P<space>\d+)-(?P<pid>\d+)-(?P<began>\d+)")
_PROCESSES, _KILL, _FREEZE = "cgroup.procs", "cgroup.kill", "cgroup.freeze"
GONE_S = 5.0
"""A process that a driver does not let go keeps its group; it is waited for no longer."""

_ENDED = (b"Z", b"X")


def above() -> Path | None:
    """The group of version 2 that this process is in, where a run may have one of its own below.

    None where there is none, where it cannot be seen, and where it has a limit itself: a script
    that looks for a limit in its own group is to find there what it does without trainperf.
    """
    with suppress(OSError):
        own = next((one for one in levels(Path("/"), "") if one.version == 2), None)
        inside = own is not None and str(os.getpid()) in _numbers(own.folder)
        if own is not None and inside and own.quota is None and own.memory_limit is None:
            return own.folder
    return None


def may_be_made() -> bool:
    """Whether a run can have a group of its own here; nothing is left of the trial."""
    folder = make(f"a trial {os.getpid()}")
    if folder is None:
        return False
    _remove(folder)
    return True


def place(run_file: str) -> Path | None:
    """Where the group of a run of this trainperf is, if it can be made."""
    parent, own = above(), began(os.getpid())
    with suppress(OSError):
        name = f"trainperf-{_digest(run_file)}-{_space()}-{os.getpid()}-{own}"
        return None if parent is None or own is None else parent / name
    return None


def make(run_file: str) -> Path | None:
    """Make the group of a run; None where that is not permitted, or would not be like ours."""
    folder = place(run_file)
    if folder is None:
        return None
    with suppress(OSError):
        folder.mkdir()
        if text(folder / "cgroup.type") == "domain":
            return folder
        _remove(folder)
    return None


def enter(folder: Path) -> None:
    """Move this process, which has just been forked, into a group; it stays where it may not."""
    _write(folder / _PROCESSES, b"0")


def of(run_file: str) -> Path | None:
    """The group of a run, below the one that this process is in; None if it has none."""
    parent, named = above(), f"trainperf-{_digest(run_file)}-*"
    found = () if parent is None else parent.glob(named)
    return next((one for one in found if _is_here(one)), None)


def members(folder: Path) -> set[int]:
    """The processes in a group and in those below it, those of groups that are gone left out."""
    found: set[int] = set()
    for path, _, _ in os.walk(folder):
        with suppress(OSError):
            found |= set(map(int, _numbers(Path(path))))
    return found - {0}


def end(folder: Path) -> None:
    """Kill whoever is in a group, and remove it. Never raises.

    Before version 5.14 of the kernel all are frozen first: none can be started meanwhile.
    """
    until = time.monotonic() + GONE_S
    kills = _write(folder / _KILL, b"1")
    if not kills:
        _write(folder / _FREEZE, b"1")
    while counters(folder / "cgroup.events").get("populated", 0) and time.monotonic() < until:
        for pid in () if kills else members(folder):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    _remove(folder)


def left() -> Iterator[Path]:
    """The groups beside our own runs' whose trainperf is gone, this user's."""
    parent = above()
    for folder in () if parent is None else parent.glob("trainperf-*"):
        if is_left(folder):
            yield folder


def is_left(folder: Path) -> bool:
    """Whether this is the group of a run of this user whose trainperf is gone."""
    name = _NAME.fullmatch(folder.name)
    with suppress(OSError):
        ours = name is not None and _is_here(folder) and folder.stat().st_uid == os.getuid()
        return name is not None and ours and is_gone(int(name["pid"]), int(name["began"]))
    return False


def is_of(folder: Path, run_file: str) -> bool:
    """Whether a folder is the group of a run, as its file says: nobody else's is touched."""
    name = _NAME.fullmatch(folder.name)
    if name is None or name["run"] != _digest(run_file) or ".." in folder.parts:
        return False
    points = [Path(point) for point, kind in mounts() if kind == "cgroup2"]
    return any(folder.is_relative_to(point) for point in points)


def _is_here(folder: Path) -> bool:
    name = _NAME.fullmatch(folder.name)
    with suppress(OSError):
        return name is not None and name["space"] == _space()
    return False


def _space() -> str:
    return re.sub(r"\D", "", pid_namespace())


def _digest(run_file: str) -> str:
    return hashlib.sha256(os.fsencode(run_file)).hexdigest()[:16]


def _numbers(folder: Path) -> list[str]:
    return (folder / _PROCESSES).read_text("ascii").split()


def _write(file: Path, data: bytes) -> bool:
    """Write into a file of a group; whether the kernel has taken it."""
    with suppress(OSError):
        descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
        try:
            return os.write(descriptor, data) == 1
        finally:
            os.close(descriptor)
    return False


def _remove(folder: Path) -> None:
    until = time.monotonic() + GONE_S
    while folder.exists():
        for path, _, _ in os.walk(folder, topdown=False):
            with suppress(OSError):
                os.rmdir(path)
        if time.monotonic() > until or counters(folder / "cgroup.events").get("populated", 0):
            return
        time.sleep(0.005)


def machine() -> str:
    """What tells this machine, since it was started, and this pid namespace from others; "" if
    that is not known.
    """
    with suppress(OSError):
        started = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{started} {os.readlink('/proc/self/ns/pid')}"
    return ""


def pid_namespace(pid: int | str = "self") -> str:
    """Name the pid namespace of a process; raises `OSError` where that may not be read."""
    return os.readlink(f"/proc/{pid}/ns/pid")


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

"""End what an earlier run left behind that was killed with its guard, and remove its folders.

A process is a leftover where it carries `TRAINPERF_RUN`, and the trainperf that wrote the file so
named is gone: the number of that process and when it began stand in it, and the machine. So is one
in the control group of such a run, whatever it carries.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from trainperf import bounded
from trainperf.run.processes import is_gone, machine, pid_namespace
from trainperf.run.stopping import LEG, NOBODY, clear, remove_temporary, stop_session

RUN_FILE = "run.json"
LARGEST = 16 * bounded.MIB


@dataclass(frozen=True)
class Swept:
    """How many processes of earlier runs were ended, and which of their folders were cleared."""

    processes: int
    folders: tuple[str, ...]


def sweep(runs: Path) -> Swept:
    """End the processes that any earlier run of this user left; clear what they left in `runs`.

    Never raises: what cannot be read or removed stays.
    """
    over = list(_over_in(runs))
    marked = [(one, name) for one, name in _carrying() if _is_over(_settings(name, one.pid))]
    for name in {name for _, name in marked}:
        for leader in {_session(one) for one, other in marked if other == name}:
            stop_session(leader, name)
    with suppress(OSError):
        return Swept(len(marked), tuple(map(str, filter(_cleared, over))))
    return Swept(len(marked), ())


def _over_in(runs: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from filter(_is_over_in, sorted(runs.iterdir()))


def _carrying() -> Iterator[tuple[psutil.Process, str]]:
    """The user's processes in this pid namespace that are part of a run, with its file."""
    ours = pid_namespace()
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.pid == os.getpid() or process.uids().real != os.getuid():
                continue
            name = process.environ().get("TRAINPERF_RUN")
            # A diagnosis within an observed script is part of that run itself.
            inner = name == os.environ.get("TRAINPERF_RUN")
            if name and not inner and pid_namespace(process.pid) == ours:
                yield process, name


def _settings(name: str, pid: int) -> dict[str, Any] | None:
    """The settings of a run, as its process sees them; None where the file is gone.

    Of one that cannot be read nothing is known.
    """
    there = False
    for path in (f"/proc/{pid}/root{name}", name):
        with suppress(OSError, ValueError, RecursionError):
            there = there or os.path.lexists(path)
            found = json.loads(bounded.read(path, LARGEST))
            return found if isinstance(found, dict) else {}
    return {} if there else None


def _is_over(settings: dict[str, Any] | None) -> bool:
    """Whether the trainperf that wrote these settings is gone; so it is where they are.

    That of another machine, which shares the folder, cannot be looked for.
    """
    if settings is None:
        return True
    if not settings.get("machine") or settings["machine"] != machine():
        return False
    parent, ticks = settings.get("parent"), settings.get("parent_ticks")
    if not isinstance(parent, int) or not isinstance(ticks, int):
        return False
    return is_gone(parent, ticks)


def _session(process: psutil.Process) -> int:
    """The session of a leftover where it is its run's own, with whom else is in it."""
    with suppress(OSError):
        session = os.getsid(process.pid)
        if session not in (0, os.getsid(0)):
            return session
    return NOBODY


def _is_over_in(folder: Path) -> bool:
    """Whether a folder holds a run of a trainperf that is gone before it was told."""
    file = folder / RUN_FILE
    with suppress(OSError):
        if folder.is_symlink() or file.is_symlink() or not file.is_file():
            return False
        if file.stat().st_uid != os.getuid() or (folder / "diagnosis.json").exists():
            return False
        return _is_over(_settings(str(file), os.getpid()))
    return False


def _cleared(folder: Path) -> bool:
    """Remove what stands in for the user's files, legs and temporary files; whether any was there.

    What was recorded stays: `trainperf merge` may read it.
    """
    before = set(folder.rglob("*"))
    runs = {one.parent for one in before if one.name == RUN_FILE}
    legs = {one for one in before if one.name.startswith(LEG) and not one.is_symlink()}
    for one in sorted(runs | legs, reverse=True):  # some had no run yet, or hold what legs share
        remove_temporary(str(one))
        clear(str(one))
    return set(folder.rglob("*")) != before

"""End and remove what an earlier run left behind that was killed with its guard.

Its folder says whose it was: the number of the trainperf that wrote it, when that began, and the
machine.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from trainperf import bounded
from trainperf.run.processes import is_gone, machine
from trainperf.run.stopping import LEG, NOBODY, clear, remove_temporary, stop_session

RUN_FILE = "run.json"
LARGEST = 16 * bounded.MIB


def sweep(runs: Path) -> list[str]:
    """End what runs in `runs` of trainperfs that are gone have left, and clear their folders.

    Returns those that held anything. Never raises: what cannot be read or removed stays.
    """
    found = list[str]()
    with suppress(OSError):
        for folder in filter(_is_over, sorted(runs.iterdir())):
            before = set(folder.rglob("*"))
            files = [path for path in before if path.name == RUN_FILE and not path.is_symlink()]
            for file in files:
                stop_session(NOBODY, str(file.resolve()))
            legs = {path for path in before if path.name.startswith(LEG) and not path.is_symlink()}
            # some had no run yet, or hold what legs share
            for place in sorted({file.parent for file in files} | legs, reverse=True):
                remove_temporary(str(place))
                clear(str(place))
            if set(folder.rglob("*")) != before:  # what was recorded stays, for `trainperf merge`
                found.append(str(folder))
    return found


def _is_over(folder: Path) -> bool:
    """Whether a folder holds a run of ours, of a trainperf that is gone before it told of it.

    That of another machine, which shares the folder, cannot be looked for.
    """
    file = folder / RUN_FILE
    with suppress(OSError, ValueError, RecursionError):
        if folder.is_symlink() or file.is_symlink() or (folder / "diagnosis.json").exists():
            return False
        if file.stat().st_uid != os.getuid():
            return False
        settings = json.loads(bounded.read(str(file), LARGEST))
        if not isinstance(settings, dict) or settings.get("machine") != (machine() or None):
            return False
        parent, ticks = settings.get("parent"), settings.get("parent_ticks")
        return isinstance(parent, int) and isinstance(ticks, int) and is_gone(parent, ticks)
    return False

"""The folders in which Open MPI's `mpirun` keeps a session; it leaves them if it is killed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path


def remove_sessions(pids: Collection[int], folder: str | None = None) -> list[str]:
    """Remove `ompi.<host>.<user>/pid.<pid>` of processes that were just stopped.

    `folder` is the one for temporary files. Returns the paths that are gone.
    """
    here = Path(folder or tempfile.gettempdir())
    removed = []
    for session in here.glob(f"ompi.*.{os.getuid()}/pid.*"):
        number = session.name.partition(".")[2]
        if not number.isdigit() or int(number) not in pids:
            continue
        shutil.rmtree(session, ignore_errors=True)
        removed.append(str(session))
        with suppress(OSError):  # another job's session may be in it
            session.parent.rmdir()
    return removed

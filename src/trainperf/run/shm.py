"""Shared memory that processes of a run left behind in `/dev/shm`.

PyTorch's tensors between processes are files without a name under its default sharing
strategy, and end with the last process that has them open. Under `file_system` they
are files `torch_<pid>_<random>_<count>` that a manager process removes, unless it is
killed too. Python's own semaphores and blocks (`sem.mp-…`, `psm_…`) carry no process
id: Python's resource tracker removes them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from contextlib import suppress

FOLDER = "/dev/shm"
NAMED = re.compile(r"(?:torch_(\d+)_\w+|sem\.loky-(\d+)-\w+)")
"""Names that carry the id of the process that made the file: PyTorch's and loky's."""


def shm_of(pids: Collection[int], folder: str = FOLDER) -> list[str]:
    """The paths of the shared memory that processes with these ids made, sorted.

    A process id may have been given to another process since: ask only for processes
    that were just stopped. Empty where there is no such folder.
    """
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    found = []
    for name in names:
        match = NAMED.fullmatch(name)
        if match and int(match[1] or match[2]) in pids:
            found.append(os.path.join(folder, name))
    return sorted(found)


def remove_shm(pids: Collection[int], folder: str = FOLDER) -> list[str]:
    """Remove what `shm_of` finds and this user may remove; return the paths that are gone."""
    removed = []
    for path in shm_of(pids, folder):
        with suppress(OSError):
            os.unlink(path)
            removed.append(path)
    return removed

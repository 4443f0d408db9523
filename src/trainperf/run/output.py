"""The file of what a run prints: its beginning and its end, however much there is between."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path
from typing import IO

from trainperf.run.spawn import OUTPUT

MOST_BYTES = 64 << 20
"""So much of the disk what a run prints may take, but for what it prints between two looks."""
FIRST_BYTES = 1 << 20
LAST_BYTES = 8 << 20
LEFT_OUT = "\n[... {} MiB that the script printed are left out here ...]\n"
KEEP_SIZE, PUNCH_HOLE = 1, 2
"""Flags of `fallocate`, of `linux/falloc.h`."""


class Output:
    """A file that processes print to, of which the middle is given back. A context manager."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / OUTPUT
        self.file: IO[bytes] = self._path.open("ab")
        self.file.truncate(0)

    def look(self) -> None:
        """Give back what lies between beginning and end, if there is too much."""
        found = os.fstat(self.file.fileno())
        if found.st_blocks * 512 <= MOST_BYTES:
            return
        if not _punch(self.file.fileno(), FIRST_BYTES, found.st_size - LAST_BYTES - FIRST_BYTES):
            with suppress(OSError):  # what comes next is at its beginning
                os.truncate(self._path, 0)

    def close(self) -> None:
        """Close it, once nobody prints any more, and say what is not there."""
        self.file.close()
        with suppress(OSError):
            _shorten(self._path)

    def __enter__(self) -> Output:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _punch(descriptor: int, start: int, length: int) -> bool:
    """Give the disk back a part of a file; whether its file system can."""
    with suppress(OSError, AttributeError):
        fallocate = ctypes.CDLL(None, use_errno=True).fallocate
        fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
        return bool(fallocate(descriptor, KEEP_SIZE | PUNCH_HOLE, start, length) == 0)
    return False


def _shorten(path: Path) -> None:
    size = path.stat().st_size
    if size <= MOST_BYTES:
        return
    with path.open("r+b") as file:
        file.seek(size - LAST_BYTES)
        last = file.read()
        file.seek(FIRST_BYTES)
        file.write(LEFT_OUT.format((size - FIRST_BYTES - LAST_BYTES) >> 20).encode())
        file.write(last)
        file.truncate()

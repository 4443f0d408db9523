"""Which parts of which files are read, and how one of them is."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass

from trainperf.machine.storage import page_cache

MOST_BYTES = 64 * 1024**2
MOST_FILES = 200
PIECE = 4 * 1024**2
CHUNK = 1024**2


@dataclass(frozen=True)
class Piece:
    """A range of a file; `whole` if it is all of it."""

    path: str
    offset: int
    length: int
    whole: bool


@dataclass(frozen=True)
class Read:
    """How long a piece took, seconds, and the bytes that came."""

    opening: float
    seconds: float
    bytes: int


def sample(files: Sequence[tuple[str, int]]) -> list[Piece]:
    """Choose what to read: at most `MOST_FILES` files and `MOST_BYTES`, spread evenly.

    `files` are paths with their sizes in bytes. Of a large file, several pieces far apart.
    """
    chosen = _spread([one for one in files if one[1] > 0], MOST_FILES)
    if not chosen:
        return []
    each = max(PIECE, MOST_BYTES // len(chosen))
    pieces: list[Piece] = []
    total = 0
    for path, size in chosen:
        for piece in _pieces(path, size, each):
            if total + piece.length > MOST_BYTES:
                return pieces
            pieces.append(piece)
            total += piece.length
    return pieces


def _spread(files: list[tuple[str, int]], most: int) -> list[tuple[str, int]]:
    if len(files) <= most:
        return files
    return [files[index * len(files) // most] for index in range(most)]


def _pieces(path: str, size: int, most: int) -> list[Piece]:
    if size <= PIECE:
        return [Piece(path, 0, size, True)]
    many = min(max(1, most // PIECE), size // PIECE)
    page = page_cache.PAGE
    starts = [index * (size // many) // page * page for index in range(many)]
    return [Piece(path, start, PIECE, False) for start in starts]


def opened(path: str) -> int:
    """Open a file to read; a pipe or a device that has taken its place is refused, not waited for.

    Raises `OSError`.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is no regular file any more")
    return fd


def read(piece: Piece) -> Read:
    """Open, read and close; the opening is timed apart."""
    buffer = memoryview(bytearray(min(CHUNK, piece.length)))
    began = time.perf_counter()
    fd = opened(piece.path)
    began_reading = time.perf_counter()
    done = 0
    try:
        while done < piece.length:
            room = buffer[: min(len(buffer), piece.length - done)]
            got = os.preadv(fd, [room], piece.offset + done)
            if not got:
                break
            done += got
    finally:
        os.close(fd)
    return Read(began_reading - began, time.perf_counter() - began, done)

"""Read a sample of files cold and warm, without root, and leave the cache as it was found."""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

from trainperf import bounded

PROBE_S = 2.0
TURN_BYTES = 16 * 1024**2
PARALLEL = 4
"""Readers at once in the second part of the sample."""

COLD_SHARE = 0.05
"""With more of its pages still in memory, a piece does not count as cold."""

MOST_BYTES = 64 * 1024**2
MOST_FILES = 200
PIECE = 4 * 1024**2
_CHUNK = 1024**2

PAGE = mmap.PAGESIZE

NOT_COLD = (
    "the files could not be made cold: the kernel kept them in its cache, or tells nothing of "
    "another user's files"
)


@dataclass(frozen=True)
class Piece:
    """A range of a file."""

    path: str
    offset: int
    length: int


class Read(NamedTuple):
    """How long a piece took, seconds, and the bytes that came."""

    seconds: float
    bytes: int


@dataclass(frozen=True)
class Probed:
    """The cost of reading the sample; rates in bytes per second, times in seconds.

    `reason` says why there is no cold rate.
    """

    probed_bytes: int = 0
    cold_bytes_s: float | None = None
    cold_parallel_bytes_s: float | None = None
    cold_file_s: float | None = None
    warm_file_s: float | None = None
    reason: str = ""


Held = dict[Piece, float]
"""The share of each piece that was in the page cache before it was dropped."""


def probe(pieces: Sequence[Piece], seconds: float = PROBE_S) -> Probed:
    """Time the pieces cold, one by one and four at once, then warm; read-only.

    Each is dropped from the cache right before it is read, so that whenever this ends, what
    was held is held again. A file system that hangs keeps whoever calls this: see `reads`.
    """
    held: Held = {}
    try:
        return _timed(pieces, seconds, held)
    except OSError as error:
        return Probed(reason=f"a file could not be read: {error.strerror or error}")
    except Exception as error:
        return Probed(reason=f"the probe failed: {type(error).__name__}")
    finally:
        for piece in (piece for piece, before in held.items() if before < 0.5):
            with suppress(OSError), _opened(piece.path) as fd:
                drop(fd, piece.offset, piece.length)


def _timed(pieces: Sequence[Piece], seconds: float, held: Held) -> Probed:
    began = time.monotonic()
    one_by_one = pieces[::2] if len(pieces) >= 2 * PARALLEL else pieces
    done: list[Piece] = []
    cold: list[Read] = []
    for piece in one_by_one:
        if time.monotonic() > began + 0.4 * seconds:
            break
        if _evicted(piece, held):
            cold.append(_read(piece))
            done.append(piece)
    if not cold:
        return Probed(reason=NOT_COLD)
    others = pieces[1::2] if len(one_by_one) < len(pieces) else ()
    together, parallel = _together(others, held, began + 0.8 * seconds)
    done += together  # in the cache now, and nothing else surely is
    warm = [_read(done[0])]
    for piece in done[1:]:
        if time.monotonic() > began + seconds:
            break
        warm.append(_read(piece))
    spent = sum(read.seconds for read in cold)
    return Probed(
        probed_bytes=sum(piece.length for piece in done),
        cold_bytes_s=sum(read.bytes for read in cold) / spent,
        cold_parallel_bytes_s=parallel,
        cold_file_s=spent / len(cold),
        warm_file_s=fmean(read.seconds for read in warm),
    )


def _together(
    pieces: Sequence[Piece], held: Held, until: float
) -> tuple[list[Piece], float | None]:
    """Read pieces cold, four at once; those that were read, and the rate.

    At most `TURN_BYTES` at a time, so that a slow disk does not hold this up for long.
    """
    done: list[Piece] = []
    left, total, spent = list(pieces), 0, 0.0
    while left and time.monotonic() <= until:
        turn: list[Piece] = []
        while left and sum(piece.length for piece in turn) < TURN_BYTES:
            turn.append(left.pop(0))
        cold = [piece for piece in turn if _evicted(piece, held)]
        shares = [cold[index::PARALLEL] for index in range(PARALLEL)]
        if not shares[-1]:
            continue
        began = time.monotonic()
        with ThreadPoolExecutor(PARALLEL) as readers:
            total += sum(readers.map(lambda share: sum(_read(p).bytes for p in share), shares))
        spent += time.monotonic() - began
        done += cold
    return done, total / spent if spent > 0 else None


def _evicted(piece: Piece, held: Held) -> bool:
    """Whether the piece is out of memory now: what was just written takes a moment."""
    with _opened(piece.path) as fd:
        before = resident(fd, piece.offset, piece.length) if tells(fd) else None
        if before is None:
            return False
        held[piece] = before
        for patience in (0.0, 0.01, 0.05):
            time.sleep(patience)
            drop(fd, piece.offset, piece.length)
            left = resident(fd, piece.offset, piece.length)
            if left is None or left <= COLD_SHARE:
                return left is not None
    return False


def sample(files: Sequence[tuple[str, int]]) -> list[Piece]:
    """Choose what to read: at most `MOST_FILES` files and `MOST_BYTES`, spread evenly.

    `files` are paths with their sizes in bytes. Of a large file, several pieces far apart.
    """
    chosen = [file for file in files if file[1] > 0]
    if not chosen:
        return []
    if len(chosen) > MOST_FILES:
        chosen = [chosen[index * len(chosen) // MOST_FILES] for index in range(MOST_FILES)]
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


def _pieces(path: str, size: int, most: int) -> list[Piece]:
    if size <= PIECE:
        return [Piece(path, 0, size)]
    many = min(max(1, most // PIECE), size // PIECE)
    starts = [index * (size // many) // PAGE * PAGE for index in range(many)]
    return [Piece(path, start, PIECE) for start in starts]


@contextmanager
def _opened(path: str) -> Iterator[int]:
    """Open a file to read; a pipe or a device that has taken its place is refused, not waited for.

    Raises `OSError`.
    """
    with bounded.opened(path) as file:
        yield file.fileno()


def _read(piece: Piece) -> Read:
    buffer = memoryview(bytearray(min(_CHUNK, piece.length)))
    began = time.perf_counter()
    done = 0
    with _opened(piece.path) as fd:
        while done < piece.length:
            got = os.preadv(fd, [buffer[: piece.length - done]], piece.offset + done)
            if not got:
                break
            done += got
    return Read(time.perf_counter() - began, done)


@functools.cache
def _libc() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    library.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
    return library


def tells(fd: int) -> bool:
    """Whether the kernel says what it holds of this file: only to those who may write to it.

    To others `mincore` calls every page resident (Linux 5.2 and later, man page mincore(2)).
    """
    status = os.fstat(fd)
    if os.geteuid() in (0, status.st_uid):
        return True
    return os.access(f"/proc/self/fd/{fd}", os.W_OK)


def resident(fd: int, offset: int, length: int) -> float | None:
    """Share of the pages of a range that the kernel holds in memory; None where it says nothing.

    `offset` is a multiple of the page size. Looking reads nothing in.
    """
    if length <= 0:
        return None
    libc = _libc()
    address = libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, fd, offset)
    if address in (None, ctypes.c_void_p(-1).value):
        return None
    try:
        pages = -(-length // PAGE)
        found = ctypes.create_string_buffer(pages)
        if libc.mincore(address, length, found):
            return None
        return sum(byte & 1 for byte in found.raw[:pages]) / pages
    finally:
        libc.munmap(address, length)


def drop(fd: int, offset: int, length: int) -> None:
    """Ask the kernel to drop a range; pages that are dirty or mapped elsewhere stay."""
    with suppress(OSError):
        os.posix_fadvise(fd, offset, length, os.POSIX_FADV_DONTNEED)

"""Read a sample of files cold and warm, without root, and leave the cache as it was found."""

from __future__ import annotations

import ctypes
import errno
import functools
import mmap
import os
import stat
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any

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


@dataclass(frozen=True)
class Piece:
    """A range of a file."""

    path: str
    offset: int
    length: int


@dataclass(frozen=True)
class Read:
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


class _Cache:
    """The page cache of each piece as it was before; drops pieces one by one as they are read."""

    def __init__(self) -> None:
        self.held: dict[Piece, float] = {}
        self.blind = self.holes = 0
        self._lock = Lock()

    def evict(self, piece: Piece) -> bool:
        """Whether the piece is out of memory now; each is asked for but once."""
        fd = _opened(piece.path)
        try:
            if not _written(fd, piece.offset, piece.length):
                with self._lock:
                    self.holes += 1
                return False
            if not tells(fd):
                with self._lock:
                    self.blind += 1
                return False
            before = resident(fd, piece.offset, piece.length)
            cold = _dropped(fd, piece)
        finally:
            os.close(fd)
        with self._lock:
            if before is not None:
                self.held[piece] = before
        return cold

    def restore(self) -> None:
        """Drop again what was not held; what was held has been read since it was dropped."""
        for piece, before in self.held.items():
            if before >= 0.5:
                continue
            try:
                fd = _opened(piece.path)
            except OSError:
                continue
            try:
                drop(fd, piece.offset, piece.length)
            finally:
                os.close(fd)


def _dropped(fd: int, piece: Piece) -> bool:
    """Have a piece dropped; what was just written is written out first, which takes a moment."""
    for patience in (0.0, 0.01, 0.05):
        time.sleep(patience)
        drop(fd, piece.offset, piece.length)
        left = resident(fd, piece.offset, piece.length)
        if left is None or left <= COLD_SHARE:
            return left is not None
    return False


def probe(pieces: Sequence[Piece], seconds: float = PROBE_S) -> Probed:
    """Time the pieces cold, one by one and four at once, then warm; read-only.

    Each is dropped from the cache right before it is read, so that whenever this ends, what
    was held is held again. A file system that hangs keeps whoever calls this: see `reads`.
    """
    cache = _Cache()
    try:
        return _timed(pieces, seconds, cache)
    except OSError as error:
        return Probed(reason=f"a file could not be read: {error.strerror or error}")
    except Exception as error:
        return Probed(reason=f"the probe failed: {type(error).__name__}")
    finally:
        cache.restore()


def _timed(pieces: Sequence[Piece], seconds: float, cache: _Cache) -> Probed:
    began = time.monotonic()
    one_by_one = pieces[::2] if len(pieces) >= 2 * PARALLEL else pieces
    alone = _cold(one_by_one, cache, began + 0.4 * seconds)
    if not alone:
        return Probed(reason=_why_not_cold(cache))
    others = pieces[1::2] if len(one_by_one) < len(pieces) else ()
    together, rate = _together(others, cache, began + 0.8 * seconds)
    done = [piece for piece, _ in alone] + together  # in the cache now, and nothing else surely is
    warm = _warm(done, began + seconds)
    cold = [one for _, one in alone]
    return Probed(
        probed_bytes=sum(piece.length for piece in done),
        cold_bytes_s=_rate(cold),
        cold_parallel_bytes_s=rate,
        cold_file_s=_mean([one.seconds for one in cold]),
        warm_file_s=_mean([one.seconds for one in warm]),
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _why_not_cold(cache: _Cache) -> str:
    if cache.holes and not cache.held and not cache.blind:
        return "the files are holes where they were looked at: no disk is asked for them"
    if cache.blind:
        return (
            "the files belong to another user: whether the kernel has dropped them cannot be seen"
        )
    return "the files could not be made cold: the kernel kept them in its cache"


def _cold(pieces: Sequence[Piece], cache: _Cache, until: float) -> list[tuple[Piece, Read]]:
    """Read those pieces that could be dropped, in their order, until time is up."""
    reads: list[tuple[Piece, Read]] = []
    for piece in pieces:
        if time.monotonic() > until:
            break
        if cache.evict(piece):
            reads.append((piece, _read(piece)))
    return reads


def _together(
    pieces: Sequence[Piece], cache: _Cache, until: float
) -> tuple[list[Piece], float | None]:
    done: list[Piece] = []
    total, spent = 0, 0.0
    for turn in _turns(pieces):
        if time.monotonic() > until:
            break
        cold = [one for one in turn if cache.evict(one)]
        shares = [cold[index::PARALLEL] for index in range(PARALLEL)]
        if not shares[-1]:
            continue
        began = time.monotonic()
        with ThreadPoolExecutor(PARALLEL) as readers:
            total += sum(readers.map(lambda share: sum(_read(p).bytes for p in share), shares))
        spent += time.monotonic() - began
        done += cold
    return done, total / spent if spent > 0 else None


def _turns(pieces: Sequence[Piece]) -> Iterator[Sequence[Piece]]:
    """At most `TURN_BYTES` at a time, so that a slow disk does not hold a turn up for long."""
    turn: list[Piece] = []
    for piece in pieces:
        turn.append(piece)
        if sum(one.length for one in turn) >= TURN_BYTES:
            yield turn
            turn = []
    if turn:
        yield turn


def _warm(pieces: Sequence[Piece], until: float) -> list[Read]:
    reads: list[Read] = []
    for piece in pieces:
        if reads and time.monotonic() > until:
            break
        reads.append(_read(piece))
    return reads


def _rate(reads: Sequence[Read]) -> float | None:
    spent = sum(one.seconds for one in reads)
    return sum(one.bytes for one in reads) / spent if reads and spent > 0 else None


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


def _opened(path: str) -> int:
    """Open a file to read; a pipe or a device that has taken its place is refused, not waited for.

    Raises `OSError`.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is no regular file any more")
    return fd


def _read(piece: Piece) -> Read:
    buffer = memoryview(bytearray(min(_CHUNK, piece.length)))
    began = time.perf_counter()
    fd = _opened(piece.path)
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
    return Read(time.perf_counter() - began, done)


@functools.cache
def _libc() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    )
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
    try:
        return os.access(f"/proc/self/fd/{fd}", os.W_OK)
    except OSError:
        return False


def _written(fd: int, offset: int, length: int) -> bool:
    """Whether a range holds data all through: of a hole no disk is asked, which looks fast.

    A file system that does not tell holes counts as one without.
    """
    try:
        if os.lseek(fd, offset, os.SEEK_DATA) != offset:
            return False
        return os.lseek(fd, offset, os.SEEK_HOLE) >= offset + length
    except OSError as error:
        return error.errno != errno.ENXIO  # no data behind the offset


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
    try:
        os.posix_fadvise(fd, offset, length, os.POSIX_FADV_DONTNEED)
    except OSError:
        pass

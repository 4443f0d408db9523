"""Read a sample of files cold and warm, without root, and leave the cache as it was found."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Lock, Thread

from trainperf.machine.storage import page_cache
from trainperf.machine.storage.read_pieces import (
    MOST_BYTES,
    MOST_FILES,
    PIECE,
    Piece,
    Read,
    opened,
    read,
    sample,
)

__all__ = ["MOST_BYTES", "MOST_FILES", "PIECE", "Piece", "Probed", "probe", "sample"]

PROBE_S = 2.0
TURN_BYTES = 16 * 1024**2
PARALLEL = 4
"""Readers at once in the second part of the sample."""

COLD_SHARE = 0.05
"""With more of its pages still in memory, a piece does not count as cold."""

STUCK_S = 8.0
"""A file system that has not answered for so long is left alone."""


@dataclass(frozen=True)
class Probed:
    """The cost of reading the sample; rates in bytes per second, times in seconds.

    `reason` says why there is no cold rate.
    """

    files: int = 0
    bytes: int = 0
    cold_bytes_s: float | None = None
    cold_parallel_bytes_s: float | None = None
    warm_bytes_s: float | None = None
    open_s: float | None = None
    cold_file_s: float | None = None
    warm_file_s: float | None = None
    whole_files: bool = False
    cached_share: float | None = None
    reason: str = ""


class _Cache:
    """The page cache of each piece as it was before; drops pieces one by one as they are read."""

    def __init__(self) -> None:
        self.held: dict[Piece, float] = {}
        self.blind = self.holes = 0
        self._lock = Lock()

    def evict(self, piece: Piece) -> bool:
        """Whether the piece is out of memory now; each is asked for but once."""
        fd = opened(piece.path)
        try:
            if not page_cache.written(fd, piece.offset, piece.length):
                with self._lock:
                    self.holes += 1
                return False
            if not page_cache.tells(fd):
                with self._lock:
                    self.blind += 1
                return False
            before = page_cache.resident(fd, piece.offset, piece.length)
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
                fd = opened(piece.path)
            except OSError:
                continue
            try:
                page_cache.drop(fd, piece.offset, piece.length)
            finally:
                os.close(fd)


def _dropped(fd: int, piece: Piece) -> bool:
    """Have a piece dropped; what was just written is written out first, which takes a moment."""
    for patience in (0.0, 0.01, 0.05):
        time.sleep(patience)
        page_cache.drop(fd, piece.offset, piece.length)
        left = page_cache.resident(fd, piece.offset, piece.length)
        if left is None or left <= COLD_SHARE:
            return left is not None
    return False


def probe(pieces: Sequence[Piece], seconds: float = PROBE_S) -> Probed:
    """Time the pieces cold, one by one and four at once, then warm; read-only.

    Each is dropped from the cache right before it is read, so that whenever this ends, what
    was held is held again. A file system that hangs is given up after `STUCK_S`.
    """
    found: list[Probed] = []
    # A thread, because no timeout ends a read from a file server that does not answer.
    thread = Thread(target=lambda: found.append(_probe(pieces, seconds)), daemon=True)
    thread.start()
    thread.join(STUCK_S)
    if found:
        return found[0]
    text = f"the file system did not answer within {STUCK_S:.0f} s"
    return Probed(reason=text if thread.is_alive() else "the probe failed")


def _probe(pieces: Sequence[Piece], seconds: float) -> Probed:
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
        held = list(cache.held.values())
        return Probed(reason=_why_not_cold(cache), cached_share=_mean(held))
    others = pieces[1::2] if len(one_by_one) < len(pieces) else ()
    together, rate = _together(others, cache, began + 0.8 * seconds)
    done = [piece for piece, _ in alone] + together  # in the cache now, and nothing else surely is
    warm = _warm(done, began + seconds)
    cold = [one for _, one in alone]
    return Probed(
        files=len({piece.path for piece in done}),
        bytes=sum(piece.length for piece in done),
        cold_bytes_s=_rate(cold),
        cold_parallel_bytes_s=rate,
        warm_bytes_s=_rate(warm),
        open_s=_mean([one.opening for one in cold]),
        cold_file_s=_mean([one.seconds for one in cold]),
        warm_file_s=_mean([one.seconds for one in warm]),
        whole_files=all(piece.whole for piece in done),
        cached_share=_mean(list(cache.held.values())),
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
            reads.append((piece, read(piece)))
    return reads


def _together(
    pieces: Sequence[Piece], cache: _Cache, until: float
) -> tuple[list[Piece], float | None]:
    """Read the pieces with four threads; what was dropped for a turn is read in that turn."""
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
        total += _at_once(shares)
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


def _at_once(shares: Sequence[Sequence[Piece]]) -> int:
    """Read each share in a thread; return the bytes. Raises the `OSError` of any of them.

    The threads are daemons: an executor's would be waited for when Python ends, though the
    file system may never answer them.
    """
    found: list[int] = []
    errors: list[OSError] = []

    def read_all(pieces: Sequence[Piece]) -> None:
        try:
            found.append(sum(read(piece).bytes for piece in pieces))
        except OSError as error:
            errors.append(error)

    threads = [Thread(target=read_all, args=(share,), daemon=True) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return sum(found)


def _warm(pieces: Sequence[Piece], until: float) -> list[Read]:
    reads: list[Read] = []
    for piece in pieces:
        if reads and time.monotonic() > until:
            break
        reads.append(read(piece))
    return reads


def _rate(reads: Sequence[Read]) -> float | None:
    spent = sum(one.seconds for one in reads)
    return sum(one.bytes for one in reads) / spent if reads and spent > 0 else None

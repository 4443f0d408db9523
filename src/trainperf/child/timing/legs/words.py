"""The words by which trainperf and a leg of a trial tell each other how far they are.

They stand in one small file per leg, mapped into memory by both sides, so that the question
"go on?" costs a step nothing that could be measured:

    turn     which slice may run, counted from 1     written by trainperf
    settle   steps of it that count for nobody       written by trainperf
    steps    steps of it that are timed              written by trainperf
    epochs   what it holds besides steps             written by trainperf
    alone    1 if one process of the leg trains      written by trainperf
    anew     1 if a loop ended, and another began    written by the leg
    device   since when it wants to use its device   written by the leg
    go       1 once the device is its own            written by trainperf
    compiles 1 while it compiles                     written by the leg
    paused   how long it was stopped as it started   written by trainperf
    warms    1 once it makes steps                   written by the leg
    over     the slice that is complete, 0: warm-up  written by the leg, a word per rank
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...process.process import Process


CONTROL = "control"
TURN, SETTLE, STEPS, EPOCHS, ALONE, ANEW, DEVICE, GO, COMPILES, PAUSED, WARMS, OVER = range(12)
"""The words; that of rank r is `OVER + r`."""
MOST_RANKS = 256
STEPS_ONLY, WHOLE, AS_WRITTEN = range(3)
"""What a slice holds: steps; whole epochs, of which opening the input is a part; or whole turns of
what the script repeats, which end where they are written to, and what follows them counts."""
SIZE = 8 * (OVER + MOST_RANKS)
WORD = struct.Struct("=q")
PER_S = 1_000_000
"""The word `device` is a time of the monotonic clock in so many parts of a second (0: never),
`paused` a duration in them."""


class Words:
    """The shared file of one leg: numbers of eight bytes, read and written whole.

    Raises OSError where there is no space for it: to touch a page without any would
    kill the process.
    """

    def __init__(self, folder: str, create: bool = False) -> None:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        fd = os.open(os.path.join(folder, CONTROL), flags, 0o600)
        try:
            if create:
                os.pwrite(fd, bytes(SIZE), 0)
            self._map = mmap.mmap(fd, SIZE)
        finally:
            os.close(fd)

    def __getitem__(self, word: int) -> int:
        value: int = WORD.unpack_from(self._map, word * 8)[0]
        return value

    def __setitem__(self, word: int, value: int) -> None:
        WORD.pack_into(self._map, word * 8, value)

    def close(self) -> None:
        self._map.close()


# A leg that waits for its turn, and says that it compiles.


ASK_AGAIN_S = 0.005


class WarmUp:
    """The words of a leg about its warm-up; a fault of ours lets it go on."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._opened = False
        self._words: Words | None = None

    def before_device(self) -> None:
        """Wait, before the device is used for the first time, until it is this leg's turn."""
        if self._opened:
            return
        self._opened = True
        words = self._told()
        if words is None:
            return
        words[DEVICE] = int(time.monotonic() * PER_S)
        while not words[GO]:
            time.sleep(ASK_AGAIN_S)

    def compile_begins(self, *_: Any) -> None:
        """Something is being compiled, which may take minutes: no step can come meanwhile."""
        self._compiles(1)

    def compile_ends(self, *_: Any) -> None:
        self._compiles(0)

    def _compiles(self, value: int) -> None:
        if (words := self._told()) is not None:
            words[COMPILES] = value

    def _told(self) -> Words | None:
        if self._words is None:
            try:
                self._words = Words(self._process.settings["folder"])
            except OSError as error:
                self._process.failed("the words of a leg", error)
        return self._words

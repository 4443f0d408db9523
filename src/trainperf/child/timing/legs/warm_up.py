"""Let a leg warm up by itself on a device that several share, and tell when it compiles.

cuDNN, XLA and Triton choose kernels by timing them, in the first steps: a neighbour on the same
GPU would leave a bad choice for the rest of the run. So a leg waits where it is about to use its
device for the first time, until trainperf says that the device is its own. It keeps it until it
stands at its first slice. What comes before, imports and data, all legs do at the same time.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from .words import COMPILES, DEVICE, GO, PER_S, Words

if TYPE_CHECKING:
    from ...process.process import Process

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
        words = self._told()
        if words is not None:
            words[COMPILES] = 1

    def compile_ends(self, *_: Any) -> None:
        """It was compiled."""
        words = self._told()
        if words is not None:
            words[COMPILES] = 0

    def _told(self) -> Words | None:
        if self._words is None:
            try:
                self._words = Words(self._process.settings["folder"])
            except OSError as error:
                self._process.failed("the words of a leg", error)
        return self._words

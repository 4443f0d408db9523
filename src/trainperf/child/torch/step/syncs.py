"""Where operations wait for a GPU, as CUDA's own debug mode tells while a few steps run.

The hooks see what a tensor is asked for; the debug mode sees every operation that waits
(a boolean mask, `nonzero`, a tensor made from a list), wherever it stands. PyTorch says so
by a Python warning, in the frame that called.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

from ...process import frames
from .calls import Place

WAITS = "called a synchronizing CUDA operation"
PROTOTYPE = "Synchronization debug mode is a prototype"
"""The warning of PyTorch when the mode is set for the first time."""
MINE = re.compile(f"(?:{re.escape(WAITS)}|{re.escape(PROTOTYPE)})", re.IGNORECASE)
OFF, WARN = 0, 1


class SyncWarnings:
    """Counts the operations that wait, by place, from `start` to `stop`.

    Nothing is done without CUDA, or where the program has set the mode itself: what it
    asked for stays. All other warnings go where they went; the filters are those of the
    program before and after, and no registry of what was warned of is touched. `off` says
    that what happens is trainperf's own.
    """

    def __init__(self, torch: Any, off: Callable[[], bool]) -> None:
        self.waits: Counter[Place] = Counter()
        self.fault = ""
        self._torch = torch
        self._off = off
        self._step: Counter[Place] = Counter()
        self._main = threading.main_thread().ident
        self._filter = ("always", MINE, Warning, None, 0)
        self._lists: list[Any] = []
        self._show: Any = None
        self._shown: Any = None
        self._set = False

    def start(self) -> None:
        """Let PyTorch warn of each operation that waits, and take these warnings in.

        Raises nothing: what went wrong is in `fault`.
        """
        cuda = self._torch.cuda
        if not cuda.is_initialized():
            return
        try:
            if cuda.get_sync_debug_mode() != OFF:
                return
            self._listen()
            self._set = True
            cuda.set_sync_debug_mode("warn")
        except Exception as error:
            self._failed(error)
            self.stop()

    def stop(self) -> None:
        """Put mode and filters back as they were; a mode that the program has set since stays."""
        try:
            if self._set and self._torch.cuda.get_sync_debug_mode() == WARN:
                self._torch.cuda.set_sync_debug_mode(OFF)
        except Exception as error:
            self._failed(error)
        self._set = False
        self._listen_no_more()

    def forked(self) -> None:
        """CUDA cannot be asked in a forked process; its mode is none of that process's."""
        self._set = False

    def step_ended(self, kept: bool) -> None:
        """A step is over; what waited in it counts if it is `kept`."""
        step, self._step = self._step, Counter()
        if kept:
            self.waits.update(step)

    # -------------------------------------------------------------------- internal

    def _failed(self, error: Exception) -> None:
        self.fault = self.fault or f"{type(error).__name__}: {error}"[:500]

    def _listen(self) -> None:
        # Not `warnings.filterwarnings`: it would make every warning of the program's that
        # was told once be told once more.
        warnings.filters.insert(0, self._filter)  # type: ignore[attr-defined]
        self._lists = [warnings.filters]
        module: Any = warnings
        self._show, self._shown = module._showwarnmsg, self._take
        module._showwarnmsg = self._shown

    def _listen_no_more(self) -> None:
        module: Any = warnings
        if self._shown is not None and module._showwarnmsg is self._shown:
            module._showwarnmsg = self._show
        for each in (*self._lists, warnings.filters):  # `catch_warnings` works on a copy
            while self._filter in each:
                each.remove(self._filter)
        self._lists, self._shown = [], None

    def _take(self, message: Any) -> None:
        text = str(message.message)
        if not MINE.match(text):
            self._show(message)
            return
        if text.startswith(WAITS) and self._set:
            try:
                self._note()
            except Exception as error:
                self._failed(error)

    def _note(self) -> None:
        if threading.get_ident() != self._main or self._off():
            return
        frame, _ = frames.users_frame()
        if frame is not None:
            self._step[Place(frame.f_code, frame.f_lasti, frame.f_lineno)] += 1

"""Append events to one file per process.

One JSON object per line. What `write` was given before a SIGKILL survives it, but
for the last fifth of a second: lines are gathered and written with one `os.write`.
"""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any

FLUSH_EVERY_S = 0.2
LOST = "lost"
"""Begins the name of the empty file, `lost-<pid>-<errno>`, that says what `broken` does."""


class Recorder:
    """Writes the events of this process to `folder/events-<pid>.jsonl`.

    Never raises: on a full disk it stops, `broken` says why, and trainperf is told.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.broken = ""
        self._pid = os.getpid()
        self._lines: list[str] = []
        self._flushed = 0.0
        self._flushing = threading.RLock()  # a signal handler may record while we write
        self._writing = False
        self._fd = -1
        self._file: os.stat_result | None = None

    def write(self, kind: str, /, **fields: Any) -> None:
        """Record an event of `kind`, stamped with the monotonic clock."""
        if self.broken:
            return
        now = time.monotonic()
        event = {"e": kind, "t": now, **fields}
        try:
            self._lines.append(json.dumps(event, default=_plain))
        except (TypeError, ValueError) as error:
            self._lines.append(json.dumps({"e": "note", "t": now, "text": f"{kind}: {error}"}))
        if now - self._flushed > FLUSH_EVERY_S:
            self.flush()

    def step(self, phase: str, block: int, start: float, end: float, busy: float) -> None:
        """Record one step of the loop, `busy` seconds of it in the step function."""
        self._lines.append(
            f'{{"e": "step", "t": {end!r}, "p": "{phase}", "b": {block}, '
            f'"s": {start!r}, "w": {busy!r}}}'
        )
        if end - self._flushed > FLUSH_EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Write what has been gathered; any thread may."""
        with self._flushing:
            if self._writing:  # this thread is: what its signal handler recorded goes next time
                return
            self._writing = True
            try:
                self._write_out()
            except OSError as error:
                self.broken = str(error)
                path = os.path.join(self.folder, f"{LOST}-{self._pid}-{error.errno}")
                try:  # a full disk mostly still takes a name
                    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
                except OSError:
                    pass
            finally:
                self._writing = False

    def _write_out(self) -> None:
        self._flushed = time.monotonic()
        lines = self._lines[:]
        del self._lines[: len(lines)]  # in place: another thread may append meanwhile
        if not lines or self.broken:
            return
        if not self._is_open():
            path = os.path.join(self.folder, f"events-{self._pid}.jsonl")
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._fd = os.open(path, flags, 0o600)
            self._file = os.fstat(self._fd)
        data = ("\n".join(lines) + "\n").encode()
        while data:
            data = data[os.write(self._fd, data) :]

    def forked(self) -> None:
        """Drop what is the parent's; a file of our own opens with the first event."""
        self._pid = os.getpid()
        self._lines = []
        self._flushing = threading.RLock()
        self._writing = False
        if self._is_open():
            os.close(self._fd)
        self._fd = -1

    def discard(self) -> None:
        """Record nothing more, and remove what this process has recorded."""
        with self._flushing:
            self.broken = "not recorded"
            self._lines = []
            if self._is_open():
                os.close(self._fd)
                self._fd = -1
                try:
                    os.unlink(os.path.join(self.folder, f"events-{self._pid}.jsonl"))
                except OSError:
                    pass

    def _is_open(self) -> bool:
        """Whether the descriptor is still ours: the program may close all, and open its own."""
        if self._fd < 0 or self._file is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._fd), self._file)
        except OSError:
            return False


def _plain(value: Any) -> Any:
    for convert in (int, float):
        if hasattr(value, "dtype") or isinstance(value, (int, float)):
            try:
                return convert(value)
            except (TypeError, ValueError):
                continue
    return str(value)[:200]

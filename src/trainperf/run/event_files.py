"""Read what the processes of a run record, while they do."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

from trainperf import bounded
from trainperf.child.process.recorder import LOST
from trainperf.recording.run import Event

DIGITS = 10
"""A process id has no more of them."""
MOST_BYTES = 128 * bounded.MIB
"""So much is read of what the processes of one run record, as objects some 700 MB: an hour of
steps of 3 ms. A run that records more is over."""
LOOK_BYTES = 8 * bounded.MIB
"""So much is read of one file at once; no line that a process writes is nearly as long."""
MOST_FILES = 10_000
"""Of so many processes is read; those that train record, and a few more."""
LOST_NAME = re.compile(rf"{LOST}-(\d{{1,{DIGITS}}})-(\d{{1,4}})")


class EventFiles:
    """The events of all processes of a run, by process id, read as they are written.

    `on_event` is called with each. `lost` says why there will be no more: a process cannot write
    any, or there are more than are kept. Whatever stands in the files, so much memory is taken.
    """

    def __init__(self, folder: Path, on_event: Callable[[Event], None]) -> None:
        self.folder = folder
        self.events: dict[int, list[Event]] = {}
        self.lost = ""
        self._on_event = on_event
        self._offsets: dict[Path, int] = {}
        self._named: set[Path] = set()
        self._left = MOST_BYTES

    def read(self) -> None:
        """Read what was appended to the event files since the last time."""
        for path in sorted(self.folder.glob("events-*.jsonl"))[:MOST_FILES]:
            number = path.stem.partition("-")[2]
            if number.isdecimal() and len(number) <= DIGITS:
                while self._read_on(path, int(number)):
                    pass
        self._look_for_losses()

    def _read_on(self, path: Path, pid: int) -> bool:
        size = min(LOOK_BYTES, self._left)
        data = self._portion(path, pid, size)
        complete = data.rfind(b"\n") + 1
        if len(data) == size and not complete and size:  # a line that is too long: pass over it
            complete = size
        if not complete:
            return False
        self._offsets[path] = self._offsets.get(path, 0) + complete
        self._left -= complete
        for line in data[:complete].split(b"\n"):
            event = _event(line)
            if event is not None:
                self._take(pid, event)
            elif line.strip():
                self._left_out(path, pid)
        if self._left <= 0:
            self._lose(pid, f"more than {MOST_BYTES // bounded.MIB} MiB were recorded")
        return len(data) == size and not self.lost

    def _portion(self, path: Path, pid: int, size: int) -> bytes:
        try:
            with bounded.opened(path) as file:
                file.seek(self._offsets.get(path, 0))
                return file.read(size)
        except OSError:
            self._left_out(path, pid)
            return b""

    def _lose(self, pid: int, reason: str) -> None:
        """Say that what comes from now on is not read."""
        if not self.lost:
            text = f"no more events could be recorded ({reason}): what follows was not measured"
            note = {"e": "note", "t": time.monotonic(), "text": text, "lost": reason}
            self._take(pid, note)
            self.lost = reason

    def _left_out(self, path: Path, pid: int) -> None:
        """Say, once of each file, that not all of it is what a process of a run writes."""
        if path not in self._named:
            self._named.add(path)
            text = f"{path.name} holds what no run writes: that was left out"
            self._take(pid, {"e": "note", "t": time.monotonic(), "text": text})

    def _look_for_losses(self) -> None:
        """Notice a process that cannot write its events; the file's name says why."""
        for path in [] if self.lost else self.folder.glob(f"{LOST}-*"):
            said = LOST_NAME.fullmatch(path.name)
            if said is not None:
                self._lose(int(said[1]), os.strerror(int(said[2])))

    def _take(self, pid: int, event: Event) -> None:
        self.events.setdefault(pid, []).append(event)
        self._on_event(event)

    def remove_temporary(self, all_made: bool = False) -> None:
        """Remove the files that stopped processes would have removed themselves.

        What one that ended by itself left in the temporary folder is the script's own,
        unless `all_made`.
        """
        for events in self.events.values():
            ended = any(event["e"] == "exit" for event in events)
            for event in events:
                if event["e"] == "made" and (all_made or not ended):
                    _remove(event["name"])


def is_event(value: Any) -> bool:
    """Whether a value is an event, as far as it is the same in all: its kind, and when it was."""
    if not isinstance(value, dict) or not isinstance(value.get("e"), str):
        return False
    at = value.get("t")
    return isinstance(at, int | float) and not isinstance(at, bool) and math.isfinite(at)


def _event(line: bytes) -> Event | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if is_event(found) else None


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        os.unlink(path)
    if path.endswith(".py"):  # a module of AutoGraph's, which was imported
        kept = Path(cache_from_source(path))
        with suppress(OSError):
            kept.unlink()
            kept.parent.rmdir()


def training(events: Mapping[int, Sequence[Event]]) -> dict[int, Sequence[Event]]:
    """The events of the processes in which a training loop was seen, by process id."""
    return {
        pid: recorded
        for pid, recorded in events.items()
        if any(event["e"] == "loop" for event in recorded)
    }

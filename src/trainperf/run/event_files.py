"""Read what the processes of a run record, while they do."""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from trainperf.child.process.recorder import LOST
from trainperf.child.process.temporary import TEMPORARY
from trainperf.model import Event

DIGITS = 10
"""A process id has no more of them."""


class EventFiles:
    """The events of all processes of a run, by process id, read as they are written.

    `on_event` is called with each. `lost` is true once a process said that it cannot
    write any more.
    """

    def __init__(self, folder: Path, on_event: Callable[[Event], None]) -> None:
        self.folder = folder
        self.events: dict[int, list[Event]] = {}
        self.lost = False
        self._on_event = on_event
        self._offsets: dict[Path, int] = {}
        self._named: set[Path] = set()

    def read(self) -> None:
        """Read what was appended to the event files since the last time."""
        for path in sorted(self.folder.glob("events-*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._offsets.get(path, 0))
                data = file.read()
            complete = data.rfind(b"\n") + 1
            if not complete:
                continue
            self._offsets[path] = self._offsets.get(path, 0) + complete
            number = path.stem.partition("-")[2]
            if not number.isdecimal() or len(number) > DIGITS:
                self._left_out(path, 0)
                continue
            pid = int(number)
            for line in data[:complete].split(b"\n"):
                event = _event(line)
                if event is not None:
                    self._take(pid, event)
                elif line.strip():
                    self._left_out(path, pid)
        self._look_for_losses()

    def _left_out(self, path: Path, pid: int) -> None:
        """Say, once of each file, that not all of it is what a process of a run writes."""
        if path not in self._named:
            self._named.add(path)
            text = f"{path.name} holds what no run writes: that was left out"
            self._take(pid, {"e": "note", "t": time.monotonic(), "text": text})

    def _look_for_losses(self) -> None:
        """Notice a process that cannot write its events; the file's name says why."""
        for path in [] if self.lost else self.folder.glob(f"{LOST}-*"):
            _, pid, number = path.name.split("-")
            reason = os.strerror(int(number))
            text = f"no more events could be written ({reason}): what follows was not measured"
            self._take(int(pid), {"e": "note", "t": time.monotonic(), "text": text})
            self.lost = True

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
            for event in events:
                for name in event["files"] if event["e"] == "temporary" else ():
                    if Path(name).name.startswith(TEMPORARY):
                        with suppress(OSError):
                            Path(name).unlink()
            latest = [event["names"] for event in events if event["e"] == "folders"]
            for name in latest[-1] if latest else ():
                shutil.rmtree(name, ignore_errors=True)


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
    else:
        with suppress(OSError):
            os.unlink(path)


def training(events: Mapping[int, Sequence[Event]]) -> dict[int, Sequence[Event]]:
    """The events of the processes in which a training loop was seen, by process id."""
    return {
        pid: recorded
        for pid, recorded in events.items()
        if any(event["e"] == "loop" for event in recorded)
    }

"""The file of a framework's tracer in one process: read, moved to trainperf's clock, cut to fit."""

from __future__ import annotations

import bisect
import statistics
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trainperf import bounded
from trainperf.model import Event
from trainperf.trace.events import Clock, TraceEvent, thread

MOST_EVENTS = 400_000
"""Events that one file may hold, those of all processes together."""
MOST_BYTES = 400 * 1024**2
"""A file of the tracer's that is larger is not read."""
KEPT = ("schemaVersion", "deviceProperties", "distributedInfo", "displayTimeUnit")
"""Keys of a trace that other tools read besides its events."""
MARKS = 999_999_999
"""The number of a thread which no process has."""
GPU_MARK = "gpu_user_annotation"
"""Kineto shows marks on the GPU as well, when the kernels ran that were started in them."""


class Unreadable(Exception):  # noqa: N818 - names an outcome
    """Why the tracer's events are not in the trace, in words for the report."""


def read(path: Path) -> dict[str, Any]:
    """The trace that a tracer wrote. Raises `Unreadable`."""
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise Unreadable(f"it wrote {size / 1e6:.0f} MB, more than can be read")
        found = msgspec.json.decode(bounded.read(path, MOST_BYTES))
    except OSError as error:
        raise Unreadable(f"what it wrote cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(f"what it wrote is no JSON: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("traceEvents"), list):
        raise Unreadable("what it wrote is no trace")
    return found


def on_our_clock(events: Sequence[Any], traced: Event, clock: Clock) -> list[TraceEvent]:
    """The events with their times as `clock` has them; those of no known form are left out.

    The marks of the steps are in both: the tracer's, and when trainperf set them. Raises
    `Unreadable` where they are not.
    """
    begins = {f"{traced['mark']}{one['n']}": one["begin"] for one in traced["steps"]}
    known = [one for one in events if isinstance(one, dict) and _formed(one)]
    shifts = [
        clock.us(begins[one["name"]]) - one["ts"]
        for one in known
        if one.get("ph") == "X" and one["name"] in begins and one.get("cat") != GPU_MARK
    ]
    if not shifts:
        raise Unreadable("it has no mark of a step")
    shift = round(statistics.median(shifts), 3)
    moved = [
        one if one["ph"] == "M" or "ts" not in one else one | {"ts": round(one["ts"] + shift, 3)}
        for one in known
    ]
    return _marks_apart(moved, begins)


def _marks_apart(events: list[TraceEvent], names: Container[str]) -> list[TraceEvent]:
    """The events; with the marks of steps on a track of their own where they cross others.

    They do where a step ends within a call, as one does whose updates alone are seen.
    """
    marks = [one for one in events if one["ph"] == "X" and one["name"] in names]
    on_host = [one for one in marks if one.get("cat") != GPU_MARK]
    tracks = {(one.get("pid"), one.get("tid")) for one in on_host}
    edges = sorted(edge for one in on_host for edge in (one["ts"], _end(one)))
    crossed = any(
        bisect.bisect_right(edges, one["ts"]) != bisect.bisect_left(edges, _end(one))
        for one in events
        if one["ph"] == "X" and (one.get("pid"), one.get("tid")) in tracks and one not in on_host
    )
    if not crossed:
        return events
    for one in on_host:
        one["tid"] = MARKS
    return [*events, *(event for pid, _ in tracks for event in thread((pid, MARKS), "steps"))]


def _end(event: TraceEvent) -> float:
    return float(event["ts"] + event.get("dur", 0.0))


def _formed(event: dict[str, Any]) -> bool:
    timed = event.get("ph") == "M" or isinstance(event.get("ts"), int | float)
    return isinstance(event.get("ph"), str) and isinstance(event.get("name"), str) and timed


def fitting(
    events: list[TraceEvent], traced: Event, most: int, clock: Clock
) -> tuple[list[TraceEvent], int]:
    """The events of as many of the first steps as `most` events allow, and how many steps."""
    steps = traced["steps"]
    if len(events) <= most:
        return events, len(steps)
    for kept in range(len(steps) - 1, 0, -1):
        until = clock.us(steps[kept - 1]["end"])
        found = [one for one in events if one["ph"] == "M" or one.get("ts", 0.0) <= until]
        if len(found) <= most:
            return found, kept
    return [one for one in events if one["ph"] == "M"], 0


def numbered(events: list[TraceEvent], rank: int) -> list[TraceEvent]:
    """The events of one of several processes: what they number is numbered apart."""
    pids: dict[Any, int] = {}
    found: list[TraceEvent] = []
    for one in events:
        pid = pids.setdefault(one.get("pid"), (rank + 1) * 10_000_000 + len(pids))
        made = one | {"pid": pid}
        if isinstance(one.get("id"), int):
            made["id"] = one["id"] + rank * 2**32
        if one["ph"] == "M" and one["name"] == "process_name":
            made["args"] = {"name": f"rank {rank}: {one.get('args', {}).get('name', '')}"}
        if one["ph"] == "M" and one["name"] == "process_sort_index":
            made["args"] = {"sort_index": rank * 1000 + len(pids)}
        found.append(made)
    return found

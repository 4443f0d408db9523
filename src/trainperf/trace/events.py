"""The events of a Chrome trace: spans, counters, names; times from seconds to µs.

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

TraceEvent = dict[str, Any]


@dataclass(frozen=True)
class Clock:
    """Turns seconds of `time.monotonic()` into the time of the trace, which begins at `zero`.

    Whole nanoseconds, so that what lies within something else stays there.
    """

    zero: float

    def us(self, seconds: float) -> float:
        """Microseconds since the begin of the run."""
        return max(0, round((seconds - self.zero) * 1e9)) / 1e3


def span(
    name: str, track: tuple[int, int], begin_us: float, end_us: float, **args: Any
) -> TraceEvent:
    """A slice of a track, which is the numbers of its process and its thread."""
    pid, tid = track
    made: TraceEvent = {
        "ph": "X",
        "cat": "trainperf",
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": begin_us,
        "dur": round(max(0.0, end_us - begin_us), 3),
    }
    return made | ({"args": args} if args else {})


def counter(name: str, pid: int, at_us: float, value: float) -> TraceEvent:
    """A value of a counter from now on."""
    return {"ph": "C", "name": name, "pid": pid, "ts": at_us, "args": {name: value}}


def process(pid: int, name: str, order: int) -> list[TraceEvent]:
    """The name of a process, and its place among the others: low ones are at the top."""
    told = {"process_name": {"name": name}, "process_sort_index": {"sort_index": order}}
    return [{"ph": "M", "name": what, "pid": pid, "args": args} for what, args in told.items()]


def thread(track: tuple[Any, int], name: str) -> list[TraceEvent]:
    """The name of a track; tracks stand in the order of their numbers."""
    pid, tid = track
    told = {"thread_name": {"name": name}, "thread_sort_index": {"sort_index": tid}}
    return [
        {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}
        for what, args in told.items()
    ]


def in_order(events: Iterable[TraceEvent]) -> list[TraceEvent]:
    """Names first, then all by their time; of what begins together, the longer first."""
    return sorted(
        events,
        key=lambda one: (one["ph"] != "M", one.get("ts", 0.0), -one.get("dur", 0.0)),
    )

"""Recordings written by hand, event by event."""

from __future__ import annotations

from typing import Any

from trainperf.evidence.events import Observed, choose
from trainperf.model import Ending, Event, Recording, Run

FIT: dict[str, Any] = {"e": "loop", "kind": "fit", "phases": ["real", "resident", "input"]}


def recording(*events: Event, ending: Ending = Ending.MEASURED, **fields: Any) -> Recording:
    """A run of one process; events without a time are stamped one after the other."""
    stamped = tuple({"t": float(index), **event} for index, event in enumerate(events))
    run = Run(("python", "train.py"), "/home/me", "train.py")
    fields.setdefault("events", {1: stamped})
    return Recording(run, ending, 0, 0.0, 100.0, **fields)


def observed(*events: Event) -> Observed:
    """The loop among the events of one process."""
    return choose(recording(*events))


def steps(phase: str, seconds: list[float], block: int = 0) -> list[Event]:
    """Steps of the given durations, one after the other."""
    made, at = [], 100.0 + 1000 * block
    for duration in seconds:
        made.append({"e": "step", "p": phase, "b": block, "s": at, "t": at + duration, "w": 0.0})
        at += duration
    return made


def block(phase: str, seconds: float, count: int, index: int = 0) -> Event:
    return {"e": "block", "p": phase, "b": index, "s": 0.0, "d": seconds, "n": count}

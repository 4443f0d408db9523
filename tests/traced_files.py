"""Chrome traces: their tracks by name, and whether their slices are as viewers need them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

EPSILON_US = 5e-4
"""Half a nanosecond: viewers count in whole ones."""


def tracks_of(events: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The slices of each track, by its name."""
    named = {
        (one["pid"], one["tid"]): one["args"]["name"]
        for one in events
        if one["name"] == "thread_name"
    }
    found = defaultdict(list)
    for one in events:
        if one["ph"] == "X":
            found[named.get((one["pid"], one["tid"]), "")].append(one)
    return found


def check_nested(events: list[dict[str, Any]]) -> None:
    """Slices of a track lie within each other or beside each other, sorted by their begin."""
    times = [one["ts"] for one in events if one["ph"] != "M"]
    assert times == sorted(times)
    open_: dict[Any, list[float]] = defaultdict(list)
    for one in events:
        if one["ph"] != "X":
            continue
        running = open_[one["pid"], one["tid"]]
        while running and running[-1] <= one["ts"] + EPSILON_US:
            running.pop()
        end = one["ts"] + one["dur"]
        assert not running or end <= running[-1] + EPSILON_US, one
        running.append(end)

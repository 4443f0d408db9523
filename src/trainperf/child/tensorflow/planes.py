"""A profile of TensorFlow's (`*.xplane.pb`) as the events of a Chrome trace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

MARK = "step "
"""Stands before the number of a step in the name of its mark."""
LONGEST = 200
"""Characters of a text that are kept."""
TOLD = (
    "step_num",
    "tf_op",
    "hlo_op",
    "hlo_module",
    "kernel_details",
    "long_name",
    "memcpy_details",
)
"""Statistics of an event that go into the trace beside its times."""


def read(path: str) -> Any:
    """The planes of a profile. Raises `ImportError` where this TensorFlow has no such format."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    with open(path, "rb") as file:
        return xplane_pb2.XSpace.FromString(file.read())


def count(path: str) -> int:
    """How many events a profile has."""
    return sum(len(line.events) for plane in read(path).planes for line in plane.lines)


def convert(path: str, to: str, step: str) -> None:
    """Write a profile as a Chrome trace; `step` is the name of the marks of steps in it."""
    with open(to, "w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit": "ms", "traceEvents": [')
        for number, event in enumerate(events(read(path), step)):
            file.write(",\n" if number else "\n")
            json.dump(event, file)
        file.write("\n]}\n")


def events(space: Any, step: str) -> Iterator[dict[str, Any]]:
    """The events of all planes: a plane is a process, a line of it a thread; µs."""
    for pid, plane in enumerate(space.planes, 1):
        if not any(line.events for line in plane.lines):
            continue
        yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": plane.name}}
        for tid, line in enumerate(plane.lines, 1):
            name = line.display_name or line.name
            yield {
                "ph": "M",
                "name": "thread_name",
                "pid": pid,
                "tid": tid,
                "args": {"name": name[:LONGEST]},
            }
            for event in line.events:
                yield _event(plane, line, event, step) | {"pid": pid, "tid": tid}


def _event(plane: Any, line: Any, event: Any, step: str) -> dict[str, Any]:
    known = plane.event_metadata[event.metadata_id]
    told = _told(plane, event)
    name = known.display_name or known.name
    if known.name == step and "step_num" in told:
        name = f"{MARK}{told['step_num']}"
    made: dict[str, Any] = {
        "ph": "X",
        "name": name[:LONGEST],
        "ts": line.timestamp_ns / 1e3 + event.offset_ps / 1e6,
        "dur": event.duration_ps / 1e6,
    }
    return made | ({"args": told} if told else {})


def _told(plane: Any, event: Any) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for stat in event.stats:
        name = plane.stat_metadata[stat.metadata_id].name
        kind = stat.WhichOneof("value")
        if name not in TOLD or kind is None or kind == "bytes_value":
            continue
        value = getattr(stat, kind)
        if kind == "ref_value":
            value = plane.stat_metadata[value].name
        told[name] = value[:LONGEST] if isinstance(value, str) else value
    return told

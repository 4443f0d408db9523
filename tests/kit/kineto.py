"""Events in the shape of Kineto's: made by hand, or read from a Chrome trace."""

from __future__ import annotations

import json
import lzma
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

US = 1000
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation")
RUNS = Path(__file__).parents[1] / "data" / "gpu_runs"
KINDS = {
    "Operator": "cpu_op",
    "Runtime": "cuda_runtime",
    "Kernel": "kernel",
    "Memcpy": "gpu_memcpy",
    "Memset": "gpu_memset",
}
"""What traces of 2021 call what newer ones call otherwise."""
NODE = "autograd::engine::evaluate_function: "
"""Stands before the name of a node of the backward graph in newer traces."""
ANNOTATIONS = ("ProfilerStep#", "enumerate(", "Optimizer.")
"""Begin the names of what is no operator, where the kind does not say so."""


@dataclass(slots=True)
class Seen:
    """As much of Kineto's event as is read; times in microseconds."""

    label: str
    at: float
    long: float
    kind: str = "cpu_op"
    number: int = 0
    by: int = 0
    thread: int = 1
    device: int = 0
    sequence: int = -1
    forward_thread: int = 0
    stack: str = ""

    def name(self) -> str:
        return self.label

    def start_ns(self) -> int:
        return round(self.at * US)

    def duration_ns(self) -> int:
        return round(self.long * US)

    def end_ns(self) -> int:
        return self.start_ns() + self.duration_ns()

    def activity_type(self) -> str:
        return self.kind

    def device_type(self) -> str:
        return "DeviceType.CUDA" if self.kind in ON_DEVICE else "DeviceType.CPU"

    def correlation_id(self) -> int:
        return self.number

    def linked_correlation_id(self) -> int:
        return self.by

    def device_index(self) -> int:
        return self.device

    def start_thread_id(self) -> int:
        return self.thread

    def sequence_nr(self) -> int:
        return self.sequence

    def fwd_thread_id(self) -> int:
        return self.forward_thread

    def is_async(self) -> bool:
        return self.label == "async"


class Older(Seen):
    """From a version whose events do not say what kind they are."""

    activity_type = None

    def is_user_annotation(self) -> bool:
        return self.kind.endswith("annotation")


@cache
def recorded(name: str) -> tuple[Seen, ...]:
    """The events of a recorded run of `data/gpu_runs`, from the first one on."""
    trace = json.loads(lzma.decompress((RUNS / f"{name}.json.xz").read_bytes()))["traceEvents"]
    first = min(event["ts"] for event in trace)
    events = [_seen(event, first) for event in trace]
    _link(events)
    (main,) = {seen.thread for seen in events if seen.label.startswith(ANNOTATIONS)}
    for seen in events:
        if seen.forward_thread:  # PyTorch's number of the one thread that had a forward
            seen.forward_thread = main
    return tuple(events)


def _seen(event: dict[str, Any], first: float) -> Seen:
    args = event["args"]
    kind, name = KINDS.get(event["cat"], event["cat"]), event["name"]
    if event["cat"] == "Operator":
        kind = "user_annotation" if name.startswith(ANNOTATIONS) else kind
        name = NODE + name if args.get("Fwd thread id") else name
    on_host = kind in ("cpu_op", "user_annotation")
    return Seen(
        name,
        event["ts"] - first,
        event["dur"],
        kind,
        number=args["External id" if on_host else "correlation"],
        by=0 if on_host else _link_in(args),
        thread=0 if kind in ON_DEVICE else int(event["tid"]),
        device=args.get("device", 0),
        sequence=args.get("Sequence number", -1),
        forward_thread=args.get("Fwd thread id", 0),
        stack=args.get("Call stack", ""),
    )


def _link(events: list[Seen]) -> None:
    """Link calls of the runtime, and what they started, to the operators around these calls.

    Files of 2022 and 2023 do not say it; those that do say the same.
    """
    threads: dict[int, list[Seen]] = defaultdict(list)
    for seen in events:
        if seen.kind in ("cpu_op", "cuda_runtime"):
            threads[seen.thread].append(seen)
    links = {}
    for own in threads.values():
        running: list[Seen] = []
        for seen in sorted(own, key=lambda seen: (seen.at, -seen.long)):
            while running and running[-1].at + running[-1].long <= seen.at:
                running.pop()
            if seen.kind == "cpu_op":
                running.append(seen)
            elif running:
                links[seen.number] = running[-1].number
    for seen in events:
        if seen.kind == "cuda_runtime" or seen.kind in ON_DEVICE:
            link = links.get(seen.number, 0)
            assert seen.by in (0, link)
            seen.by = link


def _link_in(args: dict[str, Any]) -> int:
    """The operator's number in the file; 0 where it repeats that of the call."""
    link = int(args.get("external id", args.get("External id", 0)))
    return 0 if link == args["correlation"] else link

"""A Chrome trace of `torch.profiler`, read from its file: events in the shape of Kineto's."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partialmethod
from pathlib import Path
from typing import Any

from trainperf.errors import TrainperfError

ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation")
KINDS = {
    "Operator": "cpu_op",
    "Runtime": "cuda_runtime",
    "Kernel": "kernel",
    "Memcpy": "gpu_memcpy",
    "Memset": "gpu_memset",
}
"""What traces of 2021 call what newer ones call otherwise."""
READ = {*KINDS.values(), "cuda_driver", "user_annotation"}
ENGINE = "autograd::engine::evaluate_function: "
"""Stands before the name of a node of the backward graph in newer traces."""
ANNOTATIONS = ("ProfilerStep#", "enumerate(", "Optimizer.")
"""Begin the names of what is no operator, where the kind does not say so."""
_NS = 1000  # in a microsecond, the unit of the file


Span = tuple[float, float]
"""From when until when, in microseconds."""


@dataclass(slots=True)
class TraceEvent:
    """As much of Kineto's event as is read; `at` and `long` in microseconds.

    `number` is that of a call of CUDA's and of what it started, or an operator's own, `by` the
    number of the operator that made the call. `sequence` ties a node of the backward graph to its
    operator, which ran in the `forward_thread`. `types` are those of an operator's inputs, none
    where shapes were not recorded.
    """

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
    types: tuple[str, ...] = ()

    @property
    def span(self) -> Span:
        """When it began and ended."""
        return self.at, self.at + self.long

    # What Kineto's events answer when they are asked; times in nanoseconds.
    name = partialmethod(getattr, "label")
    activity_type = partialmethod(getattr, "kind")
    correlation_id = partialmethod(getattr, "number")
    linked_correlation_id = partialmethod(getattr, "by")
    device_index = partialmethod(getattr, "device")
    start_thread_id = partialmethod(getattr, "thread")
    sequence_nr = partialmethod(getattr, "sequence")
    fwd_thread_id = partialmethod(getattr, "forward_thread")

    def start_ns(self) -> int:
        """When it began."""
        return round(self.at * _NS)

    def duration_ns(self) -> int:
        """How long it took."""
        return round(self.long * _NS)

    def device_type(self) -> str:
        """Whether it ran on the host or on a GPU, in PyTorch's words."""
        return "DeviceType.CUDA" if self.kind in ON_DEVICE else "DeviceType.CPU"

    def is_async(self) -> bool:
        """Whether it is a mark of an asynchronous task."""
        return self.label == "async"


@dataclass(frozen=True)
class ChromeTrace:
    """What a trace holds: its events, the host's GPUs as (name, compute capability, bytes)."""

    events: tuple[TraceEvent, ...]
    gpus: tuple[tuple[str, str, int | None], ...] = ()

    def named(self, *starts: str) -> list[TraceEvent]:
        """The events on the host whose names begin so, in order."""
        own = (event for event in self.events if event.kind in ("user_annotation", "cpu_op"))
        return sorted((e for e in own if e.label.startswith(starts)), key=lambda e: e.at)


def read(file: Path) -> ChromeTrace:
    """Read a trace, gzipped or not; raises `TrainperfError` where it is none of PyTorch's."""
    try:
        data = file.read_bytes()
        trace = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        written = trace["traceEvents"]
    except OSError as error:
        raise TrainperfError(f"{file} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, EOFError) as error:
        raise TrainperfError(f"{file} is no Chrome trace", hint=HINT) from error
    found = events(written)
    if not any(event.kind == "cpu_op" for event in found):
        raise TrainperfError(f"{file} holds no operators of PyTorch's", hint=HINT)
    gpus = tuple(
        (
            str(gpu.get("name", "GPU")),
            f"{gpu.get('computeMajor')}.{gpu.get('computeMinor')}",
            gpu.get("totalGlobalMem"),
        )
        for gpu in trace.get("deviceProperties") or ()
    )
    return ChromeTrace(tuple(found), gpus)


HINT = "it takes what torch.profiler's export_chrome_trace, or its TensorBoard handler, wrote"


def events(written: Iterable[dict[str, Any]]) -> list[TraceEvent]:
    """The events of a trace's list, from the first one on."""
    complete = [event for event in written if event.get("dur") is not None and _kind(event)]
    first = min((float(event["ts"]) for event in complete), default=0.0)
    found = [_event(event, first) for event in complete]
    _link(found)
    threads = [event.thread for event in found if event.label.startswith(ANNOTATIONS)]
    if threads:
        main = max(set(threads), key=threads.count)
        for event in found:
            if event.forward_thread:  # PyTorch's number of the one thread that had a forward
                event.forward_thread = main
    return found


def _kind(event: dict[str, Any]) -> str:
    """Kineto's word for what it is; "" for what is not read."""
    kind = KINDS.get(event.get("cat", ""), event.get("cat", ""))
    if kind == "cpu_op" and event["name"].startswith(ANNOTATIONS):
        return "user_annotation"
    return kind if kind in READ else ""


def _event(event: dict[str, Any], first: float) -> TraceEvent:
    args, name, kind = event.get("args") or {}, event["name"], _kind(event)
    on_host = kind in ("cpu_op", "user_annotation")
    if event["cat"] == "Operator" and args.get("Fwd thread id"):
        name = ENGINE + name
    number = int(args.get("External id" if on_host else "correlation") or 0)
    link = 0 if on_host else int(args.get("external id", args.get("External id")) or 0)
    return TraceEvent(
        name,
        float(event["ts"]) - first,
        float(event["dur"]),
        kind,
        number=number,
        by=0 if link == number else link,
        thread=0 if kind in ON_DEVICE else int(event["tid"]),
        device=int(args.get("device") or 0),
        sequence=int(args.get("Sequence number", -1)),
        forward_thread=int(args.get("Fwd thread id") or 0),
        stack=args.get("Call stack", ""),
        types=tuple(map(str, args.get("Input type") or ())),
    )


def _link(found: list[TraceEvent]) -> None:
    """Link calls of the runtime, and what they started, to the operators around these calls.

    Files of 2022 and 2023 do not say it; those that do say the same.
    """
    threads: dict[int, list[TraceEvent]] = defaultdict(list)
    for event in found:
        if event.kind in ("cpu_op", "cuda_runtime", "cuda_driver"):
            threads[event.thread].append(event)
    links = {}
    for own in threads.values():
        running: list[TraceEvent] = []
        for event in sorted(own, key=lambda event: (event.at, -event.long)):
            while running and running[-1].span[1] <= event.at:
                running.pop()
            if event.kind == "cpu_op":
                running.append(event)
            elif running:
                links[event.number] = running[-1].number
    for event in found:
        if event.kind not in ("cpu_op", "user_annotation"):
            event.by = links.get(event.number, 0)

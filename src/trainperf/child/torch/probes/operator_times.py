"""What PyTorch's tracer saw: operators by their time, kernels, and the gaps between."""

from __future__ import annotations

import bisect
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

PASS = "trainperf: a traced pass"
OPERATORS = 15
"""So many operators are told by name."""
ENGINE = "autograd::engine::evaluate_function: "
"""Stands before the name of a node of the backward graph while the engine is at it."""
ATEN = "aten::"
COPY = "Memcpy"
"""Begins the names of copies; then Kineto says from where to where: "HtoD (Pageable -> Device)"."""
LIBRARY = "another's::"
"""Stands for the operator of a kernel that none started."""
LONGEST_NAME = 120
"""Characters of a kernel's name that are kept: templates run to thousands."""

LEFT = re.compile(
    r"mm\b|mm_|addmm|mmbackward|conv|matmul|linear|attention|rnn|lstm|gru|embedding|index|gather"
    r"|scatter|sort|topk|fft|cholesky|solve"
    # The exchange between processes.
    r"|^record_param_comms|^nccl:"
    # A compiled graph ("CompiledFunction", "## Call CompiledFxGraph", "Torch-Compiled Region").
    r"|compiled|^triton_",
    re.IGNORECASE,
)
"""Operators that compiling leaves to the same libraries: products, convolutions, look-ups, the
exchange; and what it has put together already."""

Interval = tuple[int, int]


class OperatorTimes:
    """The events of a few passes, in nanoseconds; the first `leave_out` are not read.

    On a CPU an operator's time is its own, without that of the operators it calls; on a
    GPU it is that of the kernels and copies it started, wherever and whenever they ran: a queue
    may be longer than a pass.
    """

    def __init__(self, events: Iterable[Any], device: str, leave_out: int = 0) -> None:
        self.device = device
        events = list(events)
        marks = (event for event in events if event.name() == PASS and on_host(event))
        self.windows = sorted(map(_span, marks))[leave_out:]
        self._starts = [start for start, _ in self.windows]
        calls = (event for event in events if kind_of(event) in ("cuda_runtime", "cuda_driver"))
        self._calls = {event.correlation_id(): _span(event) for event in calls}
        self._calls.pop(0, None)
        inside = [event for event in events if self._pass_of(event) is not None]
        self.on_host = [one for one in inside if kind_of(one) == "cpu_op" and not one.is_async()]
        self.on_device = [event for event in inside if is_work(event)]
        self.kernels = [event for event in self.on_device if kind_of(event) == "kernel"]
        # The operators by the numbers that what they started is linked to.
        self._names = {
            event.correlation_id(): event.name().removeprefix(ENGINE) for event in self.on_host
        }

    def event(self) -> dict[str, Any]:
        """The fields of the event `torch_trace`, per pass."""
        cuda = self.device == "cuda"
        leaves, times = (len(self.kernels), self._by_operator()) if cuda else self._own_times()
        own = [spent for name, (_, spent) in times.items() if is_fusable(name)]
        if cuda:
            # Kernels that little but read and write memory: element by element, sums, norms, casts.
            # Those that no operator started (Triton's) may be compiled already.
            own = [
                event.duration_ns()
                for event in self.kernels
                if is_fusable(self._names.get(event.linked_correlation_id(), LIBRARY))
            ]
        gaps, unqueued = self._gaps() if cuda else (0, 0)
        spans: dict[int, list[Interval]] = defaultdict(list)
        for event in self.on_device:
            spans[event.device_index()].append(_span(event))
        busy = [_covered(spans[index]) for index in sorted(spans)]  # whatever else it ran meanwhile
        together = sum(busy) - _covered([span for several in spans.values() for span in several])
        ranked = sorted(times.items(), key=lambda item: -item[1][1])
        listed, others = ranked[:OPERATORS], ranked[OPERATORS:]
        return {
            "device": self.device,
            "seconds": self._mean(sum(end - start for start, end in self.windows)),
            "operators": [
                {"name": name, "calls": calls / len(self.windows), "seconds": self._mean(spent)}
                for name, (calls, spent) in listed
            ],
            "others_s": self._mean(sum(spent for _, (_, spent) in others)),
            "fusable_s": self._mean(sum(own)),
            "kernels": leaves / len(self.windows),
            "gap_s": self._mean(gaps) if cuda else None,
            "unqueued_s": self._mean(unqueued) if cuda else None,
            "device_s": [self._mean(spent) for spent in busy] if cuda else [],
            # How long more than one GPU ran something, each further one counted.
            "together_s": self._mean(together) if cuda else None,
        }

    def _mean(self, nanoseconds: int) -> float:
        return nanoseconds / len(self.windows) / 1e9

    def _pass_of(self, event: Any) -> int | None:
        """The pass that the event began in, or what started it; None if that was in none."""
        start, _ = self._called(event)
        index = bisect.bisect_right(self._starts, start) - 1
        return index if index >= 0 and start < self.windows[index][1] else None

    def _called(self, event: Any) -> Interval:
        """From when until when the host was at the call that started what runs on a device."""
        span = _span(event)
        return span if on_host(event) else self._calls.get(event.correlation_id(), span)

    def _own_times(self) -> tuple[int, dict[str, list[int]]]:
        """How many operators called no other; calls and own time of each, by name."""
        found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        leaves = 0
        for operator in nested(self.on_host):
            name = operator.event.name()
            node = name.removeprefix(ENGINE)
            found[node][0] += name == node  # the engine calls the node: that is one call
            found[node][1] += max(0, operator.own)
            leaves += not operator.calls_others
        return leaves, found

    def _by_operator(self) -> dict[str, list[int]]:
        names, seen = self._names, set[tuple[str, int]]()
        found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for event in self.on_device:
            by, label = event.linked_correlation_id(), event.name()[:LONGEST_NAME]
            name = names.get(by, label)
            if by in names and label.startswith(COPY):
                name = f"{name}: {label}"
            found[name][1] += event.duration_ns()
            if by not in names or (name, by) not in seen:  # one call may start several
                found[name][0] += 1
                seen.add((name, by))
        return found

    def _gaps(self) -> Interval:
        """Time between first and last work of each pass in which the devices had none.

        And how much of it they had none queued either: what came next was not handed over yet as
        they fell idle. That is less where the call that started it is not known.
        """
        passes: dict[int | None, list[Interval]] = defaultdict(list)
        for event in self.on_device:
            passes[self._pass_of(event)].append(_span(event))
        spans = [(min(times)[0], max(end for _, end in times)) for times in passes.values()]
        gaps = unqueued = until = 0
        for event in sorted(self.on_device, key=_span):
            (start, end), (began, ended) = _span(event), self._called(event)
            queued = ended if ended <= start else began  # it may wait for what it starts
            if any(first < until < start <= last for first, last in spans):
                gaps += start - until
                known = event.correlation_id() in self._calls
                unqueued += (start - until) * (known and queued > until)
            until = max(until, end)
        return gaps, unqueued


def is_fusable(operator: str) -> bool:
    """Whether compiling can put an operator together with others: one of PyTorch's own.

    Nodes of the backward graph have no namespace in their names.
    """
    return ("::" not in operator or operator.startswith(ATEN)) and not LEFT.search(operator)


@dataclass(slots=True)
class Nested:
    """An event of a thread; `parent` is the place of the one around it in the list of all.

    `own` are its nanoseconds without those of the events within it.
    """

    event: Any
    end: int
    own: int
    parent: int | None
    calls_others: bool = False


def nested(events: Iterable[Any]) -> list[Nested]:
    """The events thread by thread, each behind the one that it stands in."""
    threads: dict[int, list[Any]] = defaultdict(list)
    for event in events:
        threads[event.start_thread_id()].append(event)
    found: list[Nested] = []
    for several in threads.values():
        running: list[int] = []
        spans = ((*_span(event), event) for event in several)
        for start, end, event in sorted(spans, key=lambda span: (span[0], -span[1])):
            while running and found[running[-1]].end <= start:
                running.pop()
            parent = running[-1] if running else None
            if parent is not None:
                found[parent].own -= min(end, found[parent].end) - start
                found[parent].calls_others = True
            running.append(len(found))
            found.append(Nested(event, end, end - start, parent))
    return found


def _covered(spans: list[Interval]) -> int:
    """How much the spans cover, each moment once."""
    covered = until = 0
    for start, end in sorted(spans):
        covered += max(0, end - max(start, until))
        until = max(until, end)
    return covered


def _span(event: Any) -> Interval:
    return int(event.start_ns()), int(event.start_ns() + event.duration_ns())


def on_host(event: Any) -> bool:
    return str(event.device_type()).endswith("CPU")


def kind_of(event: Any) -> str:
    """Kineto's word for what it is: "cpu_op", "kernel"; by its name where there is none (2.6)."""
    ask, name = getattr(event, "activity_type", None), event.name()
    if ask is not None:
        return str(ask())
    if name == PASS or event.is_user_annotation():
        return "user_annotation"
    if on_host(event):  # calls of CUDA's are linked to the operator that made them
        return "cuda_runtime" if event.linked_correlation_id() else "cpu_op"
    copies = name.startswith((COPY, "Memset"))
    return "gpu_memcpy" if copies else "kernel"


def is_work(event: Any) -> bool:
    """Whether it is a kernel, a copy or a memset; regions of the user's are on the GPU too."""
    return kind_of(event) in ("kernel", "gpu_memcpy", "gpu_memset")

"""The tracks that trainperf adds: phases, steps, the traced steps, the user's lines, counters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from trainperf.model import Event, Sample
from trainperf.model.cells import short_spot, spot
from trainperf.trace.events import Clock, TraceEvent, counter, process, span, thread

MACHINE, FIRST = 999_999_999, 1_000_000_000
"""Numbers of processes which no process has, on Linux at most 4,194,304."""
PHASES, STEPS, TRACED, LINES = 1, 2, 3, 10
MOST_STEPS = 20_000
"""Of more steps than these only the phases are shown."""
PHASE_NAMES = {"warmup": "warm-up", "input": "input alone", "between": "between epochs"}
GB = 1e9


def of_process(
    events: Sequence[Event], number: int, name: str, clock: Clock
) -> Iterator[TraceEvent]:
    """The tracks of one process that trained, the `number`th of them."""
    pid = FIRST + number
    yield from process(pid, name, number - 1000)
    yield from thread((pid, PHASES), "phases of the diagnosis")
    yield from _phases(events, pid, clock)
    steps = [one for one in events if one["e"] == "step"]
    if 0 < len(steps) <= MOST_STEPS:
        yield from thread((pid, STEPS), "steps of the loop")
        yield from _steps(steps, pid, clock)
    for traced in (one for one in events if one["e"] == "traced_steps"):
        yield from thread((pid, TRACED), "traced steps")
        yield from _traced(traced, pid, clock)
        yield from _lines(traced.get("lines"), pid, clock)


def of_machine(samples: Sequence[Sample], clock: Clock) -> Iterator[TraceEvent]:
    """Counters of the samplers: cores, memory, GPUs."""
    if not samples:
        return
    yield from process(MACHINE, "the machine, as sampled", -1001)
    for sample in samples:
        at = clock.us(sample.t)
        for name, value in _values(sample):
            if value is not None:
                yield counter(name, MACHINE, at, round(value, 3))


def _values(sample: Sample) -> Iterator[tuple[str, float | None]]:
    host = sample.host
    if host is not None:
        yield "CPU of the script (cores)", host.cpu_cores
        yield "CPU of the machine (cores)", host.machine_cpu_cores
        yield "memory of the script (GB)", host.rss / GB
    for gpu in sample.gpus:
        yield f"GPU {gpu.index} utilisation (%)", gpu.utilization_percent
        yield f"GPU {gpu.index} SMs active", gpu.sm_active
        yield (
            f"GPU {gpu.index} memory (GB)",
            None if gpu.memory_used is None else gpu.memory_used / GB,
        )


def _phases(events: Sequence[Event], pid: int, clock: Clock) -> Iterator[TraceEvent]:
    marks = [one for one in events if one["e"] == "phase"]
    over = max((one["t"] for one in events), default=0.0)
    for mark, end in zip(marks, [*(one["t"] for one in marks[1:]), over], strict=True):
        name = PHASE_NAMES.get(mark["p"], str(mark["p"]))
        if name == "done" or end <= mark["t"]:
            continue
        yield span(name, (pid, PHASES), clock.us(mark["t"]), clock.us(end), block=mark.get("b", 0))


def _steps(steps: Sequence[Event], pid: int, clock: Clock) -> Iterator[TraceEvent]:
    until = 0.0
    for step in sorted(steps, key=lambda one: one["s"]):
        begin, end = max(until, clock.us(step["s"])), clock.us(step["t"])
        if end <= begin:
            continue
        phase = str(step["p"])
        name = f"{phase.removesuffix('~')}, settling" if phase.endswith("~") else phase
        yield span(name, (pid, STEPS), begin, end)
        until = end


def _traced(traced: Event, pid: int, clock: Clock) -> Iterator[TraceEvent]:
    for step in traced["steps"]:
        begin, end = clock.us(step["begin"]), clock.us(step["end"])
        yield span(f"step {step['n']}", (pid, TRACED), begin, end)
        for since, until in step["waits"]:
            since_us, until_us = max(begin, clock.us(since)), min(end, clock.us(until))
            if until_us > since_us:
                yield span("waiting for data", (pid, TRACED), since_us, until_us)


# --------------------------------------------------------------------------- the lines


def _lines(seen: dict[str, Any] | None, pid: int, clock: Clock) -> Iterator[TraceEvent]:
    """A track for each thread: which lines of the user's were on its stack, one in another."""
    if not seen:
        return
    every = f"sampled every {seen['interval_s'] * 1e3:g} ms"
    places = [_Place(*one) for one in seen["places"]]
    threads = sorted(seen["threads"], key=lambda one: not one["main"])
    for number, one in enumerate(threads):
        track = (pid, LINES + number)
        name = "main thread" if one["main"] else one["name"] or f"thread {one['id']}"
        yield from thread(track, f"your lines, {name} ({every})")
        yield from _stacks(one["samples"], places, track, seen["interval_s"], clock)


class _Place:
    """A line of the user's."""

    def __init__(self, file: str, line: int, function: str) -> None:
        self.name = f"{short_spot(file, line)} {function.rpartition('<locals>.')[2]}"
        self.where = spot(file, line)


def _stacks(
    samples: Sequence[Any],
    places: Sequence[_Place],
    track: tuple[int, int],
    interval_s: float,
    clock: Clock,
) -> list[TraceEvent]:
    """Slices of what successive samples have in common, in the order in which they begin."""
    found: list[TraceEvent] = []
    running: list[tuple[int, TraceEvent]] = []
    last = 0.0

    def close(keep: int, at: float) -> None:
        while len(running) > keep:
            _, one = running.pop()
            one["dur"] = round(max(0.0, clock.us(at) - one["ts"]), 3)

    for at, stack in samples:
        until = min(at, last + 5 * interval_s)  # a sampler that was held up saw nothing meanwhile
        same = 0
        if until == at:
            while same < min(len(running), len(stack)) and running[same][0] == stack[same]:
                same += 1
        close(same, until)
        for number in stack[same:]:
            place, since = places[number], clock.us(at)
            running.append((number, span(place.name, track, since, since, line=place.where)))
            found.append(running[-1][1])
        last = at
    close(0, last + interval_s)
    return found

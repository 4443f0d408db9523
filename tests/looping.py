"""A process that only remembers, and loops on a clock that only the test moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from trainperf.child.timing.budget import Budget

STEP_S = 0.01
MOST = 2000
"""No loop of a test needs so many batches from one iterator."""


def within(seconds: float) -> Budget:
    """A budget whose only limit is that measuring takes at most so many seconds."""
    return Budget({"measure_s": seconds}, 0.0)


class Clock:
    """Seconds that pass when `tick` says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def tick(self, seconds: float = STEP_S) -> None:
        self.now += seconds


class Record:
    """The events that were written, as dicts."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def write(self, kind: str, /, **fields: Any) -> None:
        self.events.append({"e": kind, **fields})

    def step(self, phase: str, block: int, start: float, end: float, busy: float) -> None:
        self.write("step", p=phase, b=block, s=start, d=end - start)

    def flush(self) -> None: ...

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["e"] == kind]


class NoReads:
    """Counts no files."""

    def begin(self) -> None: ...

    def mark(self) -> None: ...

    def close(self, dataset: Any) -> None: ...


class Watcher:
    """As much of a process and its training as loops need; a fault of ours fails the test."""

    world: Any = None

    def __init__(self, measure_s: float = 0.6) -> None:
        self.settings = {"measure_s": measure_s, "steps": None, "leg": None, "extra_s": 1.0}
        self.clock = Clock()
        self.record = Record()
        self.off = False
        self.driver: Any = None
        self.losses: Any = None
        self.facts: dict[str, Any] = {}
        self.reads = NoReads()
        self.finished = False

    @property
    def process(self) -> Watcher:
        """The process of the training: one object is both here."""
        return self

    def failed(self, what: str, error: BaseException) -> None:
        raise AssertionError(what) from error

    def note(self, text: str) -> None:
        self.record.write("note", text=text)

    def finish(self) -> None:
        self.finished = True


def handed(
    loops: Any, iterator: Any, original: Callable[[Any], Any], seconds: float = 0.0
) -> Iterator[Any]:
    """The batches a `for` over `iterator` gets where `next` is hooked; each takes `seconds`."""

    def slow(source: Any) -> Any:
        loops.process.clock.tick(seconds)
        return original(source)

    for _ in range(MOST):
        try:
            batch = loops.next(iterator, slow)
        except StopIteration:
            return
        if loops.process.finished:
            return
        yield batch
    raise AssertionError("the loop has no end")


def phases(record: Record) -> list[str]:
    """The phases that a driver entered, in their order."""
    return [event["p"] for event in record.of("phase")]

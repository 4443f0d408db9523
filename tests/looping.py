"""A process that only remembers, and loops on a clock that only the test moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fakes import STEP_S, Clock, FakeProcess, Record
from trainperf.child.timing.budget import Budget

__all__ = ["STEP_S", "Clock", "Record", "Watcher", "handed", "phases", "watching", "within"]

MOST = 2000
"""No loop of a test needs so many batches from one iterator."""


def within(seconds: float) -> Budget:
    """A budget whose only limit is that measuring takes at most so many seconds."""
    return Budget({"measure_s": seconds}, 0.0)


class NoReads:
    """Counts no files."""

    def begin(self) -> None: ...

    def mark(self) -> None: ...

    def close(self, dataset: Any) -> None: ...


class Watcher(FakeProcess):
    """A process and its training in one, as loops need them."""

    world: Any = None

    def __init__(self, measure_s: float = 0.6) -> None:
        super().__init__({"measure_s": measure_s, "steps": None, "leg": None, "extra_s": 1.0})
        self.driver: Any = None
        self.losses: Any = None
        self.reads = NoReads()

    @property
    def process(self) -> Watcher:
        """The process of the training: one object is both here."""
        return self


def watching() -> Iterator[Watcher]:
    """A watcher whose driver ends with the test, and what samples for it."""
    made = Watcher()
    yield made
    if made.driver is not None:
        made.driver.interrupted()


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

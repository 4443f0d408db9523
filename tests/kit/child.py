"""The child's process, loops on a clock that only the test moves, and the text at a place."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from trainperf.child.timing import loops
from trainperf.child.timing.budget import Budget
from trainperf.child.timing.device import HostClock
from trainperf.child.timing.drivers.loop_drivers import IteratorDriver, UpdateDriver

STEP_S = 0.01


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


class FakeProcess:
    """As much of a `Process` as any part of the child needs.

    A fault of ours fails the test, or is kept in `failures` where `lenient`.
    """

    def __init__(
        self,
        settings: dict[str, Any] | None = None,
        clock: Callable[[], float] | None = None,
        lenient: bool = False,
    ) -> None:
        self.settings: dict[str, Any] = {"leg": None} if settings is None else settings
        self.clock: Any = clock or Clock()
        self.record = Record()
        self.off = False
        self.finished = False
        self.quieted = 0
        self.failures: list[str] = []
        self.facts: dict[str, Any] = {}
        self._lenient = lenient

    def failed(self, what: str, error: BaseException) -> None:
        if not self._lenient:
            raise AssertionError(what) from error
        self.failures.append(f"{what}: {error!r}")

    def note(self, text: str) -> None:
        self.record.write("note", text=text)

    def fact(self, name: str, value: Any) -> None:
        self.facts[name] = value

    def quiet(self) -> None:
        self.quieted += 1

    def finish(self) -> None:
        self.finished = True


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


class Batches:
    """The operations on batches of a framework that is not there."""

    dataset_of = staticmethod(loops.dataset_of)
    same_dataset = staticmethod(loops.same_dataset)
    undistributed = staticmethod(loops.undistributed)
    fresh = staticmethod(loops.fresh)
    size_in_bytes = staticmethod(lambda batch: 8)


class MadeUp(loops.Loops):
    """A framework that is not there, whose devices have a clock."""

    name = "made up"
    batches: Any = Batches()

    def __init__(self, training: Any, device: Any = None) -> None:
        super().__init__(training)
        self.device = device or HostClock(self.process.clock)

    def passive(self) -> bool:
        return False

    def facts(self, driver: Any) -> dict[str, Any]:
        return {"last": driver.batch}

    def record_facts(self, driver: Any) -> None: ...
    def stages(self, driver: Any, deadline: float) -> None: ...
    def probes(self, driver: Any, deadline: float) -> None: ...

    def iterator_driver(self, iterator: Any) -> IteratorDriver:
        return IteratorDriver(self, iterator)

    def update_driver(self) -> UpdateDriver:
        return UpdateDriver(self)


def phases(record: Record) -> list[str]:
    """The phases that a driver entered, in their order."""
    return [event["p"] for event in record.of("phase")]


class Loops:
    def __init__(self) -> None:
        self.process = FakeProcess({}, lenient=True)
        self.loader_places: dict[Any, Any] = {}


class Driver:
    """As `TorchDriver`, of a loop over `loader`."""

    kind = "iterator"
    workers = ()

    def __init__(self, loader: Any, loops: Loops | None = None, batches_per_step: int = 1) -> None:
        self.loops = loops or Loops()
        self.process = self.loops.process
        self.record = self.process.record
        self.loader = loader
        self.batches_per_step = batches_per_step
        self.clock = time.monotonic

    def dataset(self) -> Any:
        return self.loader


def text_at(site: dict[str, Any]) -> str:
    """The source between the columns and lines of a site."""
    lines = Path(site["file"]).read_text(encoding="utf-8").splitlines()
    picked = lines[site["line"] - 1 : site["end_line"]]
    picked[-1] = picked[-1][: site["end_col"]]
    picked[0] = picked[0][site["col"] :]
    return "\n".join(picked)

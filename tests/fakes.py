"""The fakes of the child's process: it only remembers, and its clock only the test moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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

"""What tests of the parts of the child that look at `DataLoader`s share: fakes, and a recording."""

from __future__ import annotations

import time
from typing import Any

import pytest

torch = pytest.importorskip("torch")


class Record:
    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def write(self, kind: str, /, **fields: Any) -> None:
        self.events.append({"e": kind, **fields})

    def flush(self) -> None:
        pass

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["e"] == kind]


class Process:
    def __init__(self) -> None:
        self.off = False
        self.settings: dict[str, Any] = {}
        self.record = Record()
        self.failures: list[str] = []
        self.quieted = 0

    def failed(self, what: str, error: BaseException) -> None:
        self.failures.append(f"{what}: {error!r}")

    def quiet(self) -> None:
        self.quieted += 1


class Loops:
    def __init__(self) -> None:
        self.process = Process()
        self.loaders_built: dict[Any, int] = {}


class Driver:
    """As `TorchDriver`, of a loop over `loader`."""

    def __init__(self, loader: Any, loops: Loops | None = None, batches_per_step: int = 1) -> None:
        self.loops = loops or Loops()
        self.process = self.loops.process
        self.record = self.process.record
        self.loader = loader
        self.batches_per_step = batches_per_step
        self.clock = time.monotonic

    def dataset(self) -> Any:
        return self.loader

"""Fakes and a recording, shared by tests of the parts of the child that look at `DataLoader`s."""

from __future__ import annotations

import time
from typing import Any

import pytest

from fakes import FakeProcess

torch = pytest.importorskip("torch")


class Loops:
    def __init__(self) -> None:
        self.process = FakeProcess({}, lenient=True)
        self.loaders_built: dict[Any, int] = {}


class Driver:
    """As `TorchDriver`, of a loop over `loader`."""

    kind = "iterator"

    def __init__(self, loader: Any, loops: Loops | None = None, batches_per_step: int = 1) -> None:
        self.loops = loops or Loops()
        self.process = self.loops.process
        self.record = self.process.record
        self.loader = loader
        self.batches_per_step = batches_per_step
        self.clock = time.monotonic

    def dataset(self) -> Any:
        return self.loader

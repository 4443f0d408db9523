"""The steps that are traced behind all that is timed, and what ends them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from kit.child import STEP_S, Clock, FakeProcess
from trainperf.child.timing import loops, tracing


class Tracer(loops.Tracer):
    """Remembers what it is told."""

    def __init__(self, fails: str = "") -> None:
        self.told: list[str] = []
        self.fails = fails
        self.file = ""

    short = late = False

    def refusal(self, asked: bool) -> str:
        return ""

    def read(self) -> None: ...

    def start(self) -> None:
        self._do("start")

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        self._do(f"step {number}")
        yield
        self._do("ends")

    def stop(self) -> None:
        self._do("stop")

    def save(self, file: str) -> str:
        self._do("save")
        self.file = file
        return "it is told"

    def _do(self, what: str) -> None:
        self.told.append(what)
        if what == self.fails:
            raise RuntimeError(f"cannot {what}")


class Driver(FakeProcess):
    """As much of a driver, and of its process, as is needed here."""

    def __init__(self, tracer: Tracer | None, **settings: Any) -> None:
        super().__init__({"leg": None, "trace": True, "folder": "/run", **settings}, Clock())
        self.traced_by = tracer
        self.world: Any = None
        self.process = self
        self.step_s = STEP_S
        self.device = SimpleNamespace(asynchronous=False)
        self.plan = SimpleNamespace(step_estimate=lambda: self.step_s, slow=False)

    @property
    def loops(self) -> Any:
        return SimpleNamespace(tracer=lambda driver: self.traced_by)


def run(driver: Driver, most: int = 50) -> int:
    """Run the loop until no step of it is traced any more; how many there were."""
    one = tracing.begin(driver)
    steps = 0
    while one is not None and one.boundary():
        driver.clock.tick()
        steps += 1
        assert steps <= most
    return steps


def missing(driver: Any) -> list[tuple[str, str]]:
    return [(event["what"], event["reason"]) for event in driver.record.of("missing")]


@pytest.mark.parametrize("fails", ["start", "step 0", "ends", "stop", "save"])
def test_a_tracer_that_fails_is_stopped_and_a_reason(fails: str) -> None:
    driver = Driver(tracer := Tracer(fails=fails))
    driver._lenient = True
    run(driver)
    assert missing(driver) == [(tracing.WHAT, f"RuntimeError: cannot {fails}")]
    assert tracer.told.count("stop") == (fails != "start")
    assert not driver.record.of("traced_steps")
    assert not driver.off

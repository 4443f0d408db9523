"""Cycles between two calls of `fit` are seen once, or a few times where they are short."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kit.child import Watcher
from trainperf.child.timing import cycles
from trainperf.child.timing.cycles import Cycles


class Fake:
    """As much of a driver as is needed here: a `fit` of ten steps of a second."""

    kind = "fit"
    world = None

    def __init__(self, step_s: float = 1.0) -> None:
        self.process: Any = Watcher()
        self.process.settings["cycle_s"] = 30.0
        self.clock = self.process.clock
        self.record = self.process.record
        self.plan = SimpleNamespace(step_estimate=lambda: step_s)
        self.found: list[dict[str, Any]] = []

    def describe(self) -> dict[str, Any]:
        return {"epochs": 2, "epoch_steps": 5}

    def leave(self, now: float) -> float:
        return 0.25

    def calls(self) -> list[dict[str, Any]]:
        found, self.found = self.found, []
        return found


class NoTimer:
    """Never rings."""

    def __init__(self, seconds: float, ring: Any) -> None: ...

    def start(self) -> None: ...

    def cancel(self) -> None: ...


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycles, "Timer", NoTimer)


@pytest.fixture
def driver() -> Any:
    return Fake()


def test_what_is_laid_aside_is_in_no_turn(driver: Any) -> None:
    driver.plan.step_estimate = lambda: 0.01
    seen = Cycles(driver, 30.0)
    assert not seen.between()
    for aside in (1.5, 0.0):
        seen.fit_ended(True)
        assert seen.between()
        driver.clock.tick(2.0)
        seen.lay_aside(aside)
        seen.fit_begins()
        assert not seen.between()
        seen.step(True)
    assert [one["gap_s"] for one in driver.record.of("cycle")] == [0.5, 2.0]


def test_what_is_not_over_in_time_is_recorded_as_far_as_it_was_seen(driver: Any) -> None:
    seen = Cycles(driver, 30.0)
    seen.fit_ended(sure=True)
    driver.clock.tick(30.0)
    seen._late()
    (found,) = driver.record.of("cycle")
    assert (found["gap_s"], found["complete"]) == (30.0, False)
    assert driver.record.of("done")


@pytest.mark.parametrize("in_time", [True, False])
def test_the_first_step_of_another_model_is_timed_to_its_end(driver: Any, in_time: bool) -> None:
    seen = Cycles(driver, 30.0)
    seen.fit_ended(True)
    driver.clock.tick(2.0)
    seen.fit_begins()
    driver.clock.tick(0.5)
    assert seen.step(False)

    def make() -> str:
        driver.clock.tick(4.0)
        if not in_time:
            seen._late()
        return "logs"

    assert seen.first_step(make) == "logs"
    (found,) = driver.record.of("cycle")
    assert (found["gap_s"], found["opening_s"], found["first_s"]) == (2.0, 0.5, 4.0)
    assert found["complete"] is in_time, "else it took so long at least"


def test_the_first_step_of_another_model_that_fails_has_no_end(driver: Any) -> None:
    seen = Cycles(driver, 30.0)
    seen.fit_ended(True)
    driver.clock.tick(2.0)
    seen.fit_begins()
    seen.step(False)

    def fail() -> None:
        driver.clock.tick(1.0)
        raise ValueError("shapes")

    with pytest.raises(ValueError, match="shapes"):
        seen.first_step(fail)
    driver.clock.tick(20.0)
    seen._late()
    (found,) = driver.record.of("cycle")
    assert "first_s" not in found


def test_a_fit_of_hours_is_not_followed() -> None:
    driver: Any = Fake(step_s=100.0)
    for _ in range(2):
        assert cycles.wanted(driver) is None
        break
    assert "was not waited for" in driver.record.of("repeats")[-1]["reason"]

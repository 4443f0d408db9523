"""The measurements that come last share the time there is, and a fault ends only its own."""

from __future__ import annotations

from typing import Any

import pytest

from kit.child import Watcher
from trainperf.child.timing import completing


class Fake(Watcher):
    """A loop, and its framework, in one."""

    def __init__(self) -> None:
        super().__init__()
        self._lenient = True
        self.extras: list[Any] = []
        self.known: dict[str, Any] = {"batch": 8}

    def source(self) -> None: ...

    def exchange_extras(self, driver: Any) -> list[Any]:
        return []

    @property
    def loops(self) -> Any:
        return self

    def describe(self) -> dict[str, Any]:
        return {"batch": self.known["batch"]}

    def slow(self, deadline: float) -> None:
        assert self.off, "hooks let what we do ourselves through"
        self.clock.tick(2.0)

    def spoilt(self, deadline: float) -> None:
        raise ValueError("no such stage")


@pytest.fixture
def driver() -> Any:
    return Fake()


def missing(driver: Any) -> dict[str, str]:
    return {event["what"]: event["reason"] for event in driver.record.of("missing")}


def test_what_there_is_no_time_for_is_said_to_be_missing_but_facts_are_always_taken(driver):
    taken: list[float] = []
    extras = [("stages", driver.slow), ("probes", driver.slow), ("facts", taken.append)]
    completing.measure(driver, extras)
    reason = "too little time was left: `extra` allows 1 s for all of this"
    assert missing(driver) == {"probes": reason}
    assert taken == [1001.0], "it is told the deadline"
    assert not driver.off
    assert driver.record.events[-1]["e"] == "measured"


def test_a_measurement_that_fails_is_missing_and_the_next_is_taken(driver: Any) -> None:
    taken: list[float] = []
    completing.measure(driver, [("stages", driver.spoilt), ("probes", taken.append)])
    assert missing(driver) == {"stages": "ValueError: no such stage"}
    assert taken
    assert not driver.off


@pytest.mark.parametrize("in_step", [False, True])
def test_ranks_leave_out_the_probes_that_they_cannot_make_in_step(
    driver: Any, in_step: bool
) -> None:
    driver.world, driver.probes_in_step = object(), in_step
    driver.extras = [("probes", driver.slow), ("facts", driver.slow)]
    names = [name for name, _ in completing.extras(driver)]
    assert names == (["probes", "facts"] if in_step else ["facts"])
    assert set(missing(driver)) == (set() if in_step else {"probes"})

"""Phases take back what they set up, also where something fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kit.child import Watcher
from trainperf.child.timing.loop import PROFILE
from trainperf.child.timing.phases import Phases


class Exchange:
    """Switches that remember how they stand; turning them off fails with `fault` half way."""

    def __init__(self, fault: str = "") -> None:
        self.is_off = False
        self._fault = fault

    def off(self) -> str:
        self.is_off = True
        if self._fault:
            raise RuntimeError(self._fault)
        return ""

    def on(self) -> None:
        self.is_off = False


class Plan:
    """Goes through the phases that it is given."""

    world = None

    def __init__(self, *phases: str) -> None:
        self._phases = list(phases)
        self.given_up: list[str] = []

    @property
    def phase(self) -> str:
        return self._phases[0]

    @property
    def block(self) -> Any:
        return SimpleNamespace(phase=self.phase, index=1, seconds=0.0)

    def advance(self) -> None:
        del self._phases[0]

    def give_up(self, phase: str) -> None:
        self.given_up.append(phase)
        self._phases.remove(phase)


class Fake(Watcher):
    """A loop that goes through the phases that it is given."""

    def __init__(self, *phases: str, fault: str = "") -> None:
        super().__init__()
        self._lenient = True
        self.plan = Plan("real", *phases)
        self._fault = fault

    def stale(self) -> bool:
        return False

    def between(self) -> bool:
        return False

    def profile_begins(self) -> None: ...

    def profile_ends(self) -> None:
        if self._fault:
            raise ValueError(self._fault)


@pytest.mark.parametrize("fault", ["", "no such hook"])
def test_where_timing_fails_no_profile_goes_on_and_all_is_exchanged(fault: str) -> None:
    driver: Any = Fake(PROFILE, fault=fault)
    phases = Phases(driver)
    phases.exchange = Exchange()
    phases.exchange.off()
    phases.next()
    sampling = phases._stacks
    assert sampling is not None
    phases.end()
    assert not phases.exchange.is_off
    assert not sampling._thread.is_alive()
    assert len(driver.record.of("stacks")) == 1
    told = f"ending the profile of a loop: ValueError({fault!r})"
    assert driver.failures == ([told] if fault else [])
    phases.end()
    assert len(driver.record.of("stacks")) == 1

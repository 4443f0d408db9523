"""Phases take back what they set up; how soon batches come; waiting for what runs beside."""

from __future__ import annotations

import threading
from multiprocessing import get_context
from types import SimpleNamespace
from typing import Any

import pytest

from kit.child import Clock, Watcher
from trainperf.child.timing.loop import PROFILE
from trainperf.child.timing.phases import (
    DRAINED_EPOCHS,
    LOOK_S,
    MIN_DRAINED,
    Exhausted,
    Phases,
    drain,
    rests,
)


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


# Draining the input alone.

BATCH_S = 2.0**-4
REOPEN_S = 0.5


class Input:
    """A driver over an input of `length` batches, opened again as often as `opens` says."""

    def __init__(self, length, opens=1000, batch_s=BATCH_S):
        self.clock = Clock()
        self.plan = SimpleNamespace(slow=False)
        self.restarts = 0.0
        self.epochs_ended = 0
        self._length = self._left = length
        self._opens = opens
        self._batch_s = batch_s

    def buffered(self) -> int:
        return 0

    def pull(self, count: int) -> int:
        for _ in range(count):
            if not self._left:
                if self.epochs_ended == self._opens:
                    raise Exhausted
                self.epochs_ended += 1
                self._left = self._length
                self.restarts += REOPEN_S
                self.clock.tick(REOPEN_S)
            self._left -= 1
            self.clock.tick(self._batch_s)
        return count


def drained(source: Any, seconds: float = 1.0) -> list[tuple[float, int]]:
    marks, began = drain(source, seconds)
    assert began == 1000.0
    return marks


@pytest.mark.parametrize(("batch_s", "length"), [(BATCH_S, 5), (2.0**-14, 3000)])
def test_what_opening_the_input_again_takes_is_in_no_time(batch_s: float, length: int) -> None:
    source = Input(length, batch_s=batch_s)
    seconds, count = drained(source)[-1]
    assert source.epochs_ended >= 3
    assert seconds == pytest.approx(batch_s * count, rel=1e-3)


def test_short_data_is_passed_over_so_many_times_only() -> None:
    source = Input(2)
    drained(source, 1000.0)
    assert source.epochs_ended == DRAINED_EPOCHS


def test_an_input_that_has_no_more_says_so() -> None:
    with pytest.raises(Exhausted):
        drain(Input(20, opens=0), 1000.0)


class OpenedWithItsFirst(Input):
    """The first batch of an epoch comes with the opening, and is not counted: as in TensorFlow."""

    def pull(self, count: int) -> int:
        ended = self.epochs_ended
        return super().pull(count) - (self.epochs_ended - ended)


def test_epochs_of_one_batch_are_not_drained_for_ever() -> None:
    with pytest.raises(Exhausted, match="too few batches"):
        drain(OpenedWithItsFirst(1), 0.1)
    assert drained(OpenedWithItsFirst(3), 0.1)[-1][1] >= MIN_DRAINED


# Waiting for what runs in the background.


class Passing:
    """Time that passes while one sleeps, with what is computed meanwhile."""

    def __init__(self, *cores):
        self.now, self.used, self.cores = 0.0, 0.0, list(cores)

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.used += seconds * (self.cores.pop(0) if self.cores else 0.0)

    def rests(self, most_s):
        return rests(most_s, self, self.sleep, lambda: self.used)


def test_what_never_rests_is_not_waited_for_any_longer():
    clock = Passing(*[1.0] * 1000)
    assert not clock.rests(1.0)
    assert 1.0 <= clock.now < 1.0 + 2 * LOOK_S


def _spin(begun=None):
    if begun is not None:
        begun.set()
    while True:
        pass


@pytest.mark.alone
def test_threads_and_worker_processes_count():
    over = threading.Event()
    thread = threading.Thread(target=lambda: [None for _ in iter(over.is_set, True)])
    thread.start()
    try:
        assert not rests(0.3)
    finally:
        over.set()
        thread.join()
    begun = get_context("fork").Event()
    worker = get_context("fork").Process(target=_spin, args=(begun,), daemon=True)
    worker.start()
    try:
        begun.wait()
        assert not rests(0.3)
    finally:
        worker.kill()
        worker.join()
    assert rests(5.0)

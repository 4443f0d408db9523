"""Which iterator or update drives a loop, with a framework that is not there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from looping import STEP_S, Watcher, handed, phases, watching
from trainperf.child.timing import batches as plain
from trainperf.child.timing.device.clock import HostClock
from trainperf.child.timing.drivers.iterator_driver import IteratorDriver
from trainperf.child.timing.drivers.loop_drivers import UpdateDriver
from trainperf.child.timing.loops import BARE_UPDATES, Loops

CLOSING_S = 6.0


class Batches:
    """Batches of the framework: lists."""

    dataset_of = staticmethod(plain.dataset_of)
    same_dataset = staticmethod(plain.same_dataset)
    undistributed = staticmethod(plain.undistributed)
    fresh = staticmethod(plain.fresh)

    @staticmethod
    def size_in_bytes(batch: Any) -> int:
        return 8


class Loader:
    """A dataset of so many batches; `once` gives them a single time."""

    def __init__(self, count: int = 20, once: bool = False) -> None:
        self.count = count
        self.once = once
        self.opened = 0

    def __iter__(self) -> Numbers:
        self.opened += 1
        return Numbers(self, 0 if self.once and self.opened > 1 else self.count)


class Numbers:
    def __init__(self, loader: Loader, count: int) -> None:
        self._dataset = loader
        self._left = iter(range(count))

    def __next__(self) -> dict[str, int]:
        return {"number": next(self._left)}


class Made(Loops):
    name = "made up"
    batches = Batches()

    def __init__(self, training: Any) -> None:
        super().__init__(training)
        self.device = HostClock(self.process.clock)

    def facts(self, driver: Any) -> dict[str, Any]:
        return {"last": driver.batch}

    def record_facts(self, driver: Any) -> None: ...
    def stages(self, driver: Any, deadline: float) -> None: ...
    def probes(self, driver: Any, deadline: float) -> None: ...

    def iterator_driver(self, iterator: Any) -> IteratorDriver:
        return IteratorDriver(self, iterator)

    def update_driver(self) -> UpdateDriver:
        return UpdateDriver(self)


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    yield from watching()


@pytest.fixture
def loops(watcher: Watcher) -> Made:
    return Made(watcher)  # type: ignore[arg-type]


def over(loops: Made, loader: Loader) -> Any:
    return handed(loops, iter(loader), Numbers.__next__, 0.001)


def train(loops: Made, loader: Loader, epochs: int = 200, updates: tuple[str, ...] = ("one",)):
    """A training loop; returns the batches it got."""
    got = []
    for _ in range(epochs):
        for batch in over(loops, loader):
            got.append(batch["number"])
            loops.process.clock.tick(STEP_S)
            for key in updates:
                loops.bare_update(key)
        if loops.process.finished:
            break
    return got


class SlowToClose(Numbers):
    clock: Any = None

    def __del__(self) -> None:
        self.clock.tick(CLOSING_S)


@pytest.mark.parametrize(("late", "passed_s"), [(True, 0.0), (False, CLOSING_S)])
def test_closing_an_iterator_whose_epoch_was_broken_off_is_not_a_pause_where_it_is_ours(
    loops: Made,
    watcher: Watcher,
    monkeypatch: pytest.MonkeyPatch,
    late: bool,
    passed_s: float,
) -> None:
    monkeypatch.setattr(IteratorDriver, "can_end", lambda self: True)
    loops.closes_late = late
    SlowToClose.clock = watcher.clock
    loader = Loader(20)
    for _ in range(200):
        for _ in handed(loops, SlowToClose(loader, loader.count), Numbers.__next__, 0.001):
            watcher.clock.tick(STEP_S)
            loops.bare_update("one")
        if watcher.finished:
            break
    pauses = [event["seconds"] for event in watcher.record.of("between")]
    assert pauses
    assert max(pauses) == pytest.approx(passed_s, abs=0.01)


@pytest.mark.parametrize("aside", [0.0, 2.0])
def test_what_is_laid_aside_between_epochs_is_in_no_pause(
    loops: Made, watcher: Watcher, monkeypatch: pytest.MonkeyPatch, aside: float
) -> None:
    monkeypatch.setattr(IteratorDriver, "can_end", lambda self: True)
    loader = Loader(20)
    beside = 0
    for _ in range(200):
        for _ in over(loops, loader):
            watcher.clock.tick(STEP_S)
            assert watcher.driver is None or not watcher.driver.beside_steps()
            loops.bare_update("one")
        watcher.clock.tick(2.5)
        if watcher.driver.beside_steps():
            beside += 1
            watcher.driver.lay_aside_of_gap(aside)
        if watcher.finished:
            break
    assert beside
    pauses = [event["seconds"] for event in watcher.record.of("between")]
    assert min(pauses) == pytest.approx(2.5 - aside, abs=0.01)


def test_a_loader_that_is_only_evaluated_never_drives(loops, watcher):
    for _ in range(5):
        for _ in over(loops, Loader()):
            watcher.clock.tick()
    assert watcher.driver is None


def test_a_loader_drives_from_its_second_batch_on(loops, watcher):
    batches = over(loops, Loader())
    next(batches)
    assert watcher.driver is None
    loops.bare_update("one")
    assert watcher.driver is None
    next(batches)
    assert watcher.driver.kind == "iterator"


def test_all_phases_are_gone_through_over_several_epochs(loops, watcher):
    got = train(loops, Loader(20))
    assert watcher.finished
    round_of = ["real", "resident", "input"]
    entered = [one for one in phases(watcher.record) if one in (*round_of, "warmup", "profile")]
    assert entered == ["warmup", *round_of, "profile", *round_of * 4]
    assert len(got) > 60
    (facts,) = watcher.record.of("facts")
    assert facts["last"]["number"] in range(20)


def test_replayed_batches_are_whole_though_the_loop_takes_them_apart(loops, watcher):
    loader = Loader(20)
    for _ in range(200):
        for batch in over(loops, loader):
            batch.pop("number")  # of a spoilt one a KeyError
            watcher.clock.tick()
            loops.bare_update("one")
        if watcher.finished:
            break
    assert [block["p"] for block in watcher.record.of("block")].count("resident") == 5


def test_a_step_lasts_from_one_update_to_the_next_whatever_is_taken_between(loops, watcher):
    loader = Loader(24)
    for _ in range(200):
        batches = over(loops, loader)
        for number, _ in enumerate(batches):
            watcher.clock.tick()
            if number % 3 == 2:
                loops.bare_update("one")
        if watcher.finished:
            break
    steps = [event for event in watcher.record.of("step") if event["p"] == "real"]
    assert watcher.driver.batches_per_step == 3
    assert {round(step["d"], 3) for step in steps} == {0.033}


def test_two_optimizers_make_one_step_of_a_batch(loops, watcher):
    train(loops, Loader(20), updates=("one", "other"))
    steps = [event for event in watcher.record.of("step") if event["p"] == "real"]
    assert watcher.driver.kind == "iterator"
    assert {round(step["d"], 3) for step in steps} == {0.011}


def test_many_updates_of_one_batch_are_still_a_step_of_the_loader(loops, watcher):
    train(loops, Loader(20), updates=("critic",) * 5 + ("generator",))
    assert watcher.driver.kind == "iterator"


def test_a_loader_of_one_batch_drives_from_its_second_epoch_on(loops, watcher):
    train(loops, Loader(1))
    assert watcher.finished
    assert [block["p"] for block in watcher.record.of("block")].count("real") >= 2


def test_a_loader_that_is_opened_for_each_batch_drives(loops, watcher):
    loader = Loader(20)
    for _ in range(2000):
        loops.next(iter(loader), Numbers.__next__)
        watcher.clock.tick()
        loops.bare_update("one")
        if watcher.finished:
            break
    assert watcher.finished
    steps = [event for event in watcher.record.of("step") if event["p"] == "real"]
    assert {round(step["d"], 3) for step in steps} == {STEP_S}


def test_a_loop_that_counts_its_steps_is_measured_before_it_is_over(loops, watcher):
    """Character models ask an endless loader by `next`, some hundred times."""
    iterator = iter(Loader(10**6))
    for _ in range(400):
        loops.next(iterator, Numbers.__next__)
        watcher.clock.tick()
        loops.bare_update("one")
        if watcher.finished:
            break
    assert watcher.finished
    assert [block["p"] for block in watcher.record.of("block")].count("real") >= 2


def test_a_loader_beside_the_driving_one_is_replayed_with_it(loops, watcher):
    one, other = Loader(20), Loader(1000)
    second = iter(other)
    asked = 0

    def original(iterator):
        nonlocal asked
        asked += 1
        return Numbers.__next__(iterator)

    in_resident = []
    for _ in range(200):
        for _ in over(loops, one):
            before = asked
            assert loops.next(second, original)["number"] is not None
            if watcher.driver and watcher.driver.resident:
                in_resident.append(asked - before)
            watcher.clock.tick()
            loops.bare_update("one")
        if watcher.finished:
            break
    assert in_resident
    assert set(in_resident) == {0}


def test_a_companion_is_whole_though_the_loop_takes_it_apart(loops, watcher):
    first, second = Loader(20), iter(Loader(1000))
    for _ in range(200):
        for _ in over(loops, first):
            loops.next(second, Numbers.__next__).pop("number")
            watcher.clock.tick()
            loops.bare_update("one")
        if watcher.finished:
            return


def test_an_iterator_that_was_asked_before_training_is_not_beside_the_loops_own(loops, watcher):
    """Replayed, an evaluation inside the resident phase would have no end."""
    training, held_out = Loader(20), iter(Loader(1000))
    loops.next(held_out, Numbers.__next__)
    for number, _ in enumerate(over(loops, training)):
        watcher.clock.tick()
        loops.bare_update("one")
        if number == 3:
            break
    assert not watcher.driver.companion(held_out)


def test_a_loader_that_is_evaluated_between_epochs_is_not_the_loops(loops, watcher):
    training, validation = Loader(20), Loader(5)
    for _ in range(200):
        for _ in over(loops, training):
            watcher.clock.tick()
            loops.bare_update("one")
        if watcher.finished:
            break
        driver = watcher.driver
        for _ in over(loops, validation):
            watcher.clock.tick()
        assert watcher.driver is driver
    assert watcher.driver.dataset() is training


def test_a_long_evaluation_does_not_make_its_loader_drive(loops, watcher):
    for number, _ in enumerate(over(loops, Loader(20))):
        watcher.clock.tick()
        loops.bare_update("one")
        if number == 5:
            break
    driver = watcher.driver
    for _ in over(loops, Loader(6)):
        watcher.clock.tick(10.0)
        assert driver.stale()
    assert watcher.driver is driver


def test_the_next_loop_drives_where_the_last_one_is_over(loops, watcher):
    for _ in range(2):
        for number, _ in enumerate(over(loops, Loader(20))):
            watcher.clock.tick()
            loops.bare_update("one")
            if number == 5:
                break
        watcher.clock.tick(100.0)
    assert len(watcher.record.of("loop")) == 2


def test_input_that_ends_for_good_ends_the_loop_without_a_fault(loops, watcher):
    train(loops, Loader(40, once=True), epochs=1)
    assert not watcher.finished
    (missing,) = watcher.record.of("missing")
    assert missing["what"] == "input"
    assert {"real", "resident"} <= {block["p"] for block in watcher.record.of("block")}


def test_input_that_ends_for_good_is_said_to_have_run_out(loops, watcher):
    train(loops, Loader(40, once=True), epochs=1)
    (missing,) = watcher.record.of("missing")
    assert missing["reason"] == "the input ran out"


def test_updates_without_any_iterator_drive_by_themselves(loops, watcher):
    for _ in range(BARE_UPDATES):
        loops.bare_update("one")
        watcher.clock.tick()
    assert watcher.driver is None
    while not watcher.finished:
        loops.bare_update("one")
        loops.bare_update("other")
        watcher.clock.tick()
    assert watcher.driver.kind == "update"
    assert watcher.driver.updates_per_step == 2
    steps = [event for event in watcher.record.of("step") if event["p"] == "real"]
    assert {round(step["d"], 3) for step in steps} == {STEP_S}


def test_long_steps_without_any_iterator_are_timed_from_the_fourth_on(loops, watcher):
    for _ in range(4):
        loops.bare_update("one")
        watcher.clock.tick(30.0)
    loops.bare_update("one")
    assert watcher.driver.kind == "update"
    steps = [event for event in watcher.record.of("step") if event["p"] == "real"]
    assert [step["d"] for step in steps] == [pytest.approx(30.0)]


def test_one_optimizer_that_is_applied_twice_in_a_row_makes_two_steps(loops, watcher):
    for _ in range(BARE_UPDATES + 20):
        loops.bare_update("one")
        watcher.clock.tick()
    assert watcher.driver.updates_per_step == 1


def test_the_first_update_is_recorded_once(loops, watcher):
    for _ in range(3):
        loops.bare_update("one")
    assert len(watcher.record.of("first_update")) == 1


@pytest.mark.parametrize(("every", "most_s"), [(7, STEP_S), (1, 5.0)])
def test_a_step_that_evaluates_now_and_then_is_left_out_of_the_times(
    loops: Made, watcher: Watcher, every: int, most_s: float
) -> None:
    number = 0
    for _ in range(200):
        for _ in over(loops, Loader(20)):
            number += 1
            if watcher.driver is not None and number % every == 0:
                watcher.clock.tick(5.0)
                watcher.driver.evaluated = True
            watcher.clock.tick(STEP_S)
            loops.bare_update("one")
        if watcher.finished:
            break
    blocks = [one for one in watcher.record.of("block") if one["p"] == "real"]
    assert blocks
    assert max(one["d"] / one["n"] for one in blocks) == pytest.approx(most_s, abs=0.02)
    assert any(one["p"] == "evaluated" for one in watcher.record.of("step")) is (every > 1)

"""Which iterator or update drives a loop, with a framework that is not there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kit.child import STEP_S, MadeUp, Watcher, handed, watching
from trainperf.child.process.patching import around
from trainperf.child.timing.drivers.loop_drivers import IteratorDriver


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


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    yield from watching()


@pytest.fixture
def loops(watcher: Watcher) -> MadeUp:
    return MadeUp(watcher)


def over(loops: MadeUp, loader: Loader) -> Any:
    return handed(loops, iter(loader), Numbers.__next__, 0.001)


def train(loops: MadeUp, loader: Loader, epochs: int = 200, updates: tuple[str, ...] = ("one",)):
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


def test_input_that_ends_for_good_ends_the_loop_without_a_fault(loops, watcher):
    train(loops, Loader(40, once=True), epochs=1)
    assert not watcher.finished
    (missing,) = watcher.record.of("missing")
    assert missing["what"] == "input"
    assert {"real", "resident"} <= {block["p"] for block in watcher.record.of("block")}


def test_a_fault_of_ours_at_a_batch_costs_the_program_none(loops, watcher, monkeypatch):
    monkeypatch.setattr(Numbers, "__next__", Numbers.__next__)
    monkeypatch.setattr(IteratorDriver, "waited", lambda driver, seconds: 1 / 0)
    watcher._lenient = True
    around(watcher, Numbers, "__next__")(loops.batch)
    got = []
    for batch in Loader(30):
        got.append(batch["number"])
        loops.bare_update("one")
    assert got == [*range(30)]
    assert len(watcher.failures) == 1


@pytest.mark.parametrize("aside", [0.0, 2.0])
def test_what_is_laid_aside_between_epochs_is_in_no_pause(loops, watcher, monkeypatch, aside):
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


def test_a_loader_of_one_batch_drives_from_its_second_epoch_on(loops, watcher):
    train(loops, Loader(1))
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


@pytest.mark.parametrize(("every", "most_s"), [(7, STEP_S), (1, 5.0)])
def test_a_step_that_evaluates_now_and_then_is_left_out_of_the_times(
    loops: MadeUp, watcher: Watcher, every: int, most_s: float
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
    assert all(one["own"] >= 0 for one in blocks), "legs of trials tell what hooks take"
    assert blocks
    assert max(one["d"] / one["n"] for one in blocks) == pytest.approx(most_s, abs=0.02)
    assert any(one["p"] == "evaluated" for one in watcher.record.of("step")) is (every > 1)


@pytest.mark.parametrize("repeats", [25.0, None])
def test_a_step_that_begins_another_pass_over_what_is_repeated_is_left_out_of_the_times(
    loops: MadeUp, watcher: Watcher, monkeypatch, repeats: float | None
) -> None:
    def next_(numbers: Numbers) -> dict[str, int]:
        number = next(numbers._left)
        watcher.clock.tick(0.0 if number % 25 else 5.0)  # a shuffle fills its buffer
        return {"number": number}

    monkeypatch.setattr(Numbers, "__next__", next_)
    monkeypatch.setattr(MadeUp, "batches_of_pass", lambda self, dataset: repeats)
    train(loops, Loader(3000))
    phases = {step["p"] for step in watcher.record.of("step") if step["d"] > 1}
    assert (phases == {"first"}) is (repeats is not None)

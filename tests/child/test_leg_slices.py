"""The plan of a leg, without processes: what a slice counts, and when it must not go on."""

import errno
from types import SimpleNamespace

import pytest

from trainperf.child import leg


class Record:
    def __init__(self):
        self.events = []

    def write(self, kind, **fields):
        self.events.append((kind, fields))

    def flush(self):
        pass


@pytest.fixture
def slices(tmp_path):
    made = []

    def make():
        words = leg.Words(str(tmp_path), create=not made)
        losses = SimpleNamespace(updates=0, flush=lambda: None)
        observer = SimpleNamespace(
            clock=lambda: 0.0, settings={"folder": str(tmp_path)}, losses=losses, record=Record()
        )
        plan = leg.Slices(observer, {"warm_up_steps": 1, "warm_up_epochs": 0})
        made.append((plan, words))
        return plan, words, losses, observer.record

    yield make
    for plan, words in made:
        plan._words.close()
        words.close()


def begin(plan, words, steps, calls):
    """End the warm-up of a loop with so many steps per call; begin its first slice."""
    plan.describe = lambda: setattr(plan, "steps_per_call", calls)
    words[leg.STEPS], words[leg.SETTLE], words[leg.TURN] = steps, 0, 1
    plan.advance()
    plan.begin_if_settled()


def test_the_last_call_of_an_epoch_counts_the_steps_it_held(slices):
    plan, words, losses, record = slices()
    begin(plan, words, 4, calls=16)
    # an epoch of 20 steps: 16 in its first call, which is not counted, and 4
    ended = []
    for _ in range(4):
        losses.updates += 16  # not counted: it opened the input
        losses.updates += 4
        ended.append(plan.step_ended(0.1))
    assert ended == [False, False, False, True]
    words[leg.TURN] = 2
    plan.advance()
    assert record.events == [("work", {"b": 1, "n": 16})]


def test_whole_calls_count_whole_before_and_after_the_end_of_an_epoch(slices):
    plan, words, losses, record = slices()
    begin(plan, words, 4, calls=16)
    for updates in (16, 16, 8, 16 + 16):
        losses.updates += updates
        plan.step_ended(0.1)
    words[leg.TURN] = 2
    plan.advance()
    assert record.events == [("work", {"b": 1, "n": 16 + 16 + 8 + 16})]


def test_a_loop_of_single_steps_is_counted_by_its_steps_alone(slices):
    plan, words, _, record = slices()
    begin(plan, words, 2, calls=1)
    assert [plan.step_ended(0.1), plan.step_ended(0.1)] == [False, True]
    words[leg.TURN] = 2
    plan.advance()
    assert record.events == []


def test_a_second_loop_of_a_leg_says_so_once_the_first_was_measured(slices):
    plan, words, *_ = slices()
    slices()
    assert words[leg.ANEW] == 0  # the first was still warming up
    begin(plan, words, 2, calls=1)
    slices()
    assert words[leg.ANEW] == 1


def test_the_shared_file_has_its_space_before_it_is_touched(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(leg.os, "pwrite", full)
    with pytest.raises(OSError, match="no space left"):
        leg.Words(str(tmp_path), create=True)

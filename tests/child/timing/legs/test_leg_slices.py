"""The plan of a leg, without processes: what a slice counts, and when it must not go on."""

from types import SimpleNamespace

import pytest

from kit.child import FakeProcess
from trainperf.child.timing.legs import leg
from trainperf.child.timing.legs.words import AS_WRITTEN, STEPS_ONLY, WHOLE


@pytest.fixture
def slices(tmp_path):
    made = []

    def make(rank=0, size=1, now=(0.0,), **settings):
        words = leg.words.Words(str(tmp_path), create=not made)
        losses = SimpleNamespace(updates=0, retries=0, flush=lambda: None)
        process = FakeProcess({"folder": str(tmp_path)}, clock=lambda: now[0])
        driver = SimpleNamespace(
            process=process,
            record=process.record,
            clock=process.clock,
            training=SimpleNamespace(losses=losses, retries=lambda: losses.retries),
            world=SimpleNamespace(rank=rank, size=size) if size > 1 else None,
            epochs_ended=0,
            sync=lambda: None,
        )
        warms = {"warm_up_steps": 1, "warm_up_epochs": 0, "pass_steps": 0}
        plan = leg.Slices(driver, warms | settings)
        made.append((plan, words))
        return plan, words, losses, process.record

    yield make
    for plan, words in made:
        plan._words.close()
        words.close()


def begin(plan, words, steps, calls, settle=0):
    """End the warm-up of a loop with so many steps per call; begin its first slice."""
    plan._driver.loops = SimpleNamespace(steps_per_call=lambda driver: calls)
    words[leg.words.STEPS], words[leg.words.SETTLE], words[leg.words.TURN] = steps, settle, 1
    plan.advance()
    plan._record.events.clear()
    plan.begin_if_settled()


@pytest.mark.parametrize(("pass_steps", "ended", "steps"), [(0, 1, 4), (9, 0, 18), (0, 0, 50)])
def test_a_warm_up_ends_with_its_passes_over_the_data(slices, pass_steps, ended, steps):
    plan, *_ = slices(warm_up_epochs=2, warm_up_steps=3, pass_steps=pass_steps)
    plan._driver.epochs_ended = 2 * ended
    made = next((made for made in range(1, 50) if plan.step_ended(0.01)), 50)
    assert made == steps


def test_a_slice_in_which_the_devices_memory_ran_short_says_so(slices):
    plan, words, counts, record = slices()
    counts.retries = 3  # while it warmed up, beside nobody
    begin(plan, words, 4, calls=1)
    counts.retries += 2
    words[leg.words.TURN] = 2
    plan.advance()
    words[leg.words.TURN] = 3
    plan.advance()
    assert record.events == [{"e": "retries", "b": 1, "n": 2}]


@pytest.mark.parametrize("size", [1, 2])
def test_a_slice_that_is_taken_twice_holds_twice_the_steps_and_counts_the_difference(slices, size):
    plan, words, losses, record = slices(size=size)
    words[leg.words.EPOCHS] = WHOLE
    begin(plan, words, 4, calls=2)
    assert steps_to_the_end(plan, losses) == 4
    plan._driver.epochs_ended += 1
    plan.repeat_doubled()
    plan.begin_if_settled()
    assert steps_to_the_end(plan, losses) == 8
    plan._driver.epochs_ended += 2
    words[leg.words.TURN] = 2
    plan.advance()
    assert record.events == [{"e": "work", "b": 1, "n": 8}, {"e": "epochs", "b": 1, "n": 1}]


def steps_to_the_end(plan, losses):
    """Steps until the slice says that it is complete: at its last, or before the next for ranks."""
    for steps in range(1, 20):
        losses.updates += 2
        if plan.step_ended(0.1) or plan.arrived():
            return steps
    raise AssertionError("it does not end")


def test_each_slice_holds_what_trainperf_asks_for(slices):
    """Epochs end by themselves only in turns that are taken as they are written."""
    plan, words, *_ = slices()
    assert (plan.whole_epochs, plan.wants_more) == (False, True)  # as it warms up
    plan._driver.loops = SimpleNamespace(steps_per_call=lambda driver: 1)
    kinds = {STEPS_ONLY: (False, True), WHOLE: (True, True), AS_WRITTEN: (True, False)}
    for turn, holds in enumerate((WHOLE, STEPS_ONLY, AS_WRITTEN, STEPS_ONLY), start=1):
        words[leg.words.EPOCHS], words[leg.words.STEPS], words[leg.words.TURN] = holds, 3, turn
        plan.advance()
        assert (plan.whole_epochs, plan.wants_more) == kinds[holds]


def test_ranks_warm_up_for_the_same_number_of_steps_whatever_their_clocks_say(slices):
    now = [0.0]
    ready = []
    for rank, took in ((0, [0.1] * 20), (1, [9.0, 0.1, 3.0, 0.2] * 5)):
        plan, *_ = slices(rank, 2, now)
        for count, seconds in enumerate(took):
            if plan.arrived():
                ready.append(count)
                break
            now[0] += seconds
            assert not plan.step_ended(seconds)
    assert ready == [leg.WARM_UP_OF_RANKS] * 2


def test_a_slice_of_a_rank_ends_at_the_same_step_also_where_one_was_left_out(slices):
    ended = {}
    for rank, left_out in ((0, ()), (1, (2,))):
        plan, words, *_ = slices(rank, 2)
        begin(plan, words, 4, calls=1, settle=2)
        for count in range(20):
            if count and plan.arrived():
                break
            plan.begin_if_settled()
            if count not in left_out:
                plan.step_ended(0.1)
        ended[rank] = count, plan.block.steps
    assert ended == {0: (6, 4), 1: (6, 3)}


def test_steps_have_their_time_to_settle_after_the_last_that_compiled(slices):
    now = [0.0]
    plan, *_ = slices(now=now)
    durations = iter([60.0, 1.0, 9.0, 1.0, 9.0])
    ended = []
    for usual in (False, True, True, True, True):
        seconds = next(durations)
        now[0] += seconds
        ended.append(plan.step_ended(seconds, usual))
    assert ended == [False, False, True, True, True]


def test_what_passed_while_others_ran_is_no_part_of_a_warm_up_step(slices):
    now = [100.0]
    plan, words, _, _ = slices(now=now)
    for paused in (0.0, 7.0, 0.0):
        now[0] += 0.1 + paused
        words[leg.words.PAUSED] += int(paused * leg.words.PER_S)
        plan.step_ended(0.1 + paused)
    assert plan._durations == pytest.approx([0.1] * 3)
    assert now[0] - plan._began == pytest.approx(0.3), "nor of the longest warm-up"

import pytest

from trainperf.trial.legs.leg import slice_of


def block(turn, seconds, steps, own=0.0):
    return {"e": "block", "b": turn, "d": seconds, "n": steps, "own": own}


def work(turn, steps):
    return {"e": "work", "b": turn, "n": steps}


def test_a_turn_of_which_one_rank_wrote_nothing_is_no_slice():
    assert slice_of([[block(2, 0.3, 4)], [block(1, 0.3, 4)]], 2, 1.0) is None


def test_calls_of_several_steps_count_what_they_held():
    events = [block(1, 0.4, 4), work(1, 60), block(2, 0.4, 4)]
    found = [slice_of([events], turn, 16.0) for turn in (1, 2)]
    assert [(slice_.work, slice_.updates) for slice_ in found] == [(60.0, 60), (64.0, 64)]


def test_a_slice_of_ranks_takes_as_long_as_the_slowest_needs():
    ranks = [[block(1, 0.4, 4, own=0.004)], [block(1, 0.6, 4, own=0.008)]]
    found = slice_of(ranks, 1, 1.0)
    assert (found.seconds, found.steps) == (0.6, 4)
    assert found.own_s == pytest.approx(0.006)  # the mean of the ranks


def test_a_step_on_twice_the_samples_does_twice_the_work():
    block = {"e": "block", "b": 1, "d": 1.0, "n": 10, "own": 0.0}
    counted = {"e": "work", "b": 1, "n": 37}
    found = slice_of([[block]], 1, 2.0, 2.0), slice_of([[counted, block]], 1, 8.0, 2.0)
    assert [(slice_.work, slice_.updates) for slice_ in found] == [(20.0, 10), (74.0, 37)]


def test_memory_that_ran_short_on_any_rank_is_told_with_the_slice():
    short = {"e": "retries", "b": 1, "n": 2}
    ranks = [[block(1, 0.4, 4), short], [block(1, 0.4, 4), short, block(2, 0.4, 4)]]
    assert slice_of(ranks, 1, 1.0).retries == 4
    assert slice_of(ranks[1:], 2, 1.0).retries == 0

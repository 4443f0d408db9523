from dataclasses import replace

import pytest

from trainperf.trial.budget import END_S, Clock, Costs, budget_needed


def costs(start_s=10.0, step_s=0.1, epoch_s=60.0, cores=2.0, slots=10):
    return Costs(start_s, step_s, epoch_s, cores, slots)


def test_legs_that_fit_on_the_cores_start_as_quickly_as_one():
    assert costs().starting(1) == costs().starting(2) == 10.0
    assert costs().starting(6) == 30.0
    assert costs().starting(0) == 0.0


def test_slow_steps_make_slices_of_two_steps_one_of_which_settles():
    assert costs(step_s=5.0).comparing(1, pairs=1) == pytest.approx(1.5 * 10.0 * 1.1)
    every = replace(costs(step_s=5.0), settles=False)
    assert every.comparing(1, pairs=1) == pytest.approx(1.5 * 5.0 * 1.1)


def test_the_budget_that_would_be_needed_suffices_and_is_as_it_is_printed():
    for candidates in (1, 3, 8, 12):
        for slots in (10, 2, 1):
            one = costs(slots=slots)
            needed = budget_needed(25.0, one, candidates)
            assert needed % (10 if needed <= 90 else 60) == 0
            assert one.trying(candidates) <= needed - 25.0 - END_S


def test_a_budget_that_did_not_do_is_not_named_as_one_that_would():
    quick = costs(start_s=1.0)
    assert budget_needed(5.0, quick, 1) < 180.0
    assert budget_needed(5.0, quick, 1, missed=180.0) > 180.0


class Time:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_the_clock_keeps_the_end_free_for_the_report():
    time = Time()
    clock = Clock(110.0, lambda: False, time)
    assert clock.left == pytest.approx(10.0 - END_S)
    assert not clock.over()
    time.now = 110.0 - END_S
    assert clock.over()
    assert clock.left == 0.0


def test_a_clock_that_keeps_some_time_ends_earlier_and_is_interrupted_as_well():
    asked = []
    clock = Clock(110.0, lambda: bool(asked), Time())
    early = clock.keeping(4.0)
    assert clock.left - early.left == pytest.approx(4.0)
    asked.append(1)
    assert early.over()

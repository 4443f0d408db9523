from dataclasses import replace

import pytest

from trainperf.trial.budget import END_S, Clock, Costs, affordable, budget_needed
from trainperf.trial.turns import MIN_PAIRS, SLICE_S


def costs(start_s=10.0, step_s=0.1, epoch_s=60.0, cores=2.0, together=True):
    return Costs(start_s, step_s, epoch_s, cores, together)


def test_legs_that_fit_on_the_cores_start_as_quickly_as_one():
    assert costs().starting(1) == costs().starting(2) == 10.0
    assert costs().starting(6) == 30.0
    assert costs(cores=0.5).starting(1) == 10.0


def test_whole_epochs_before_the_first_slice_count_for_every_leg():
    assert costs().starting(2, epochs=1) == 70.0
    assert costs().starting(4, epochs=1) == 140.0


def test_a_contest_takes_two_slices_for_each_pair():
    assert costs(step_s=0.001).comparing(1) >= 2 * MIN_PAIRS * SLICE_S
    assert costs().comparing(4) == pytest.approx(4 * costs().comparing(1))
    assert costs().comparing(1, pairs=12) == pytest.approx(2 * costs().comparing(1))


def test_slow_steps_make_slices_of_two_steps_one_of_which_settles():
    assert costs(step_s=5.0).comparing(1, pairs=1) == pytest.approx(2 * 10.0 * 1.1)
    every = replace(costs(step_s=5.0), settles=False)
    assert every.comparing(1, pairs=1) == pytest.approx(2 * 5.0 * 1.1)


def test_candidates_share_the_script_and_its_control():
    one, two = costs(cores=1).trying(1), costs(cores=1).trying(2)
    assert one > costs(cores=1).starting(3)
    assert two - one == pytest.approx(10.0 + costs().comparing(1))


def test_one_after_another_each_candidate_takes_three_processes():
    apart = costs(together=False)
    assert apart.trying(1) > 4 * apart.start_s
    assert apart.trying(2) - apart.trying(1) > 3 * apart.start_s
    assert apart.trying(4) > costs(cores=8).trying(4)


@pytest.mark.parametrize("together", [True, False])
def test_what_is_affordable_fits_and_one_more_would_not(together):
    for left in (20.0, 60.0, 180.0, 600.0):
        one = costs(together=together)
        count = affordable(one, left, 20)
        assert count == 0 or one.trying(count) <= left
        assert count == 20 or one.trying(count + 1) > left


def test_nothing_is_affordable_without_time():
    assert affordable(costs(), 0.0, 5) == 0
    assert affordable(costs(), -3.0, 5) == 0
    assert affordable(costs(), 1000.0, 0) == 0


def test_the_budget_that_would_be_needed_suffices_and_is_as_it_is_printed():
    for candidates in (1, 3, 8, 12):
        for together in (True, False):
            one = costs(together=together)
            needed = budget_needed(25.0, one, candidates)
            assert needed % (10 if needed <= 90 else 60) == 0
            assert affordable(one, needed - 25.0 - END_S, candidates) == candidates


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


def test_an_interrupt_ends_the_time():
    asked = []
    clock = Clock(1000.0, lambda: bool(asked), Time())
    assert not clock.over()
    asked.append(1)
    assert clock.over()
    assert clock.left > 0


def test_a_clock_that_keeps_some_time_ends_earlier_and_is_interrupted_as_well():
    asked = []
    clock = Clock(110.0, lambda: bool(asked), Time())
    early = clock.keeping(4.0)
    assert clock.left - early.left == pytest.approx(4.0)
    asked.append(1)
    assert early.over()


def test_legs_that_warm_up_in_turn_take_the_time_of_all():
    assert replace(costs(cores=8), in_turn=True).starting(4) == 4 * costs().starting(1)
    assert costs(cores=8).starting(4) == costs().starting(1)


ON_A_DEVICE = replace(costs(cores=8), in_turn=True, before_device_s=7.0)


def test_what_comes_before_the_device_is_passed_beside_each_other():
    assert ON_A_DEVICE.starting(1) == costs().starting(1)
    assert ON_A_DEVICE.starting(4) == 7.0 + 4 * 3.0
    assert ON_A_DEVICE.starting(4, epochs=1) == 7.0 + 4 * 63.0
    assert replace(ON_A_DEVICE, in_turn=False).starting(4) == costs(cores=8).starting(4)


def test_before_the_device_legs_keep_each_other_from_few_cores():
    assert replace(ON_A_DEVICE, cores=2.0).starting(4) == 2 * 7.0 + 4 * 3.0
    assert replace(ON_A_DEVICE, cores=1.0).starting(4) == 4 * 10.0


def test_one_after_another_every_process_imports_by_itself():
    alone = replace(ON_A_DEVICE, together=False)
    assert alone.trying(2) == costs(together=False).trying(2)


@pytest.mark.parametrize(
    ("one", "first_two"), [(costs(cores=8), 10.0), (ON_A_DEVICE, 13.0), (costs(cores=1), 20.0)]
)
def test_where_two_fit_the_script_and_its_control_start_together_and_others_alone(one, first_two):
    two = replace(one, two=True)
    assert two.starting(3) == 30.0
    assert two.trying(3) == pytest.approx(first_two + 30.0 + one.comparing(4))

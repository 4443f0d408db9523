"""The plan of phases, on a clock that only the test moves."""

import pytest

from kit.child import within
from trainperf.child.timing.budget import MEASURE_SHARE, Budget
from trainperf.child.timing.loop import (
    DONE,
    INPUT,
    PROFILE,
    REAL,
    RESIDENT,
    ROUNDS,
    WARM_UP,
    Plan,
)


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def play(plan, clock, step=0.01, most=100_000):
    """Run a loop of equal steps to its end; return the phases with the steps they counted."""
    phases = []
    while plan.phase != DONE and most:
        most -= 1
        block = plan.block
        if plan.phase == INPUT:
            clock.now += block.seconds
            phases.append((INPUT, block.index, 0))
            plan.advance()
            continue
        plan.begin_if_settled()
        clock.now += step
        if plan.step_ended(step):
            phases.append((block.phase, block.index, block.steps))
            plan.advance()
    return phases


def names(phases):
    return [phase for phase, _, _ in phases]


def bursty(plan, clock, slow, resident_s=0.01):
    """Run a loop in which `slow` says by the round how slow the real steps are."""
    reals = 0
    while plan.phase != DONE:
        block = plan.block
        if plan.phase == INPUT:
            clock.now += block.seconds
            plan.advance()
            continue
        plan.begin_if_settled()
        seconds = slow(block.index) if block.phase == REAL else resident_s
        clock.now += seconds
        if plan.step_ended(seconds):
            if block.phase != WARM_UP:
                plan.timed(block.phase, clock.now - block.started, block.steps)
            reals += block.phase == REAL
            plan.advance()
    return reals


def profiles(slow, **options):
    """How many times steps are profiled where `slow` says how long those of each profile take."""
    clock, times = Clock(), []
    plan = Plan(clock, Budget(BUDGET, 0.0), **options)
    while plan.phase != DONE:
        block = plan.block
        if plan.phase == INPUT:
            clock.now += block.seconds
            plan.advance()
            continue
        plan.begin_if_settled()
        seconds = slow(block.index) if block.phase == PROFILE else 0.01
        clock.now += seconds
        if plan.step_ended(seconds):
            if block.phase != WARM_UP:
                plan.timed(block.phase, clock.now - block.started, block.steps)
            times += [block.index] if block.phase == PROFILE else []
            plan.advance()
    return times


BUDGET = {"budget_s": 180.0, "began": 1000.0}


def test_a_profile_on_which_a_burst_fell_is_taken_again_at_the_end():
    assert profiles(lambda index: 0.012) == [0]
    assert profiles(lambda index: 0.012 if index else 0.09) == [0, 1]
    assert profiles(lambda index: 0.09) == [0, 1, 2]  # that is what profiling costs here
    assert profiles(lambda index: 0.09, steps=50) == [0]


def test_rounds_go_on_until_the_times_are_settled():
    clock = Clock()

    def slow(index):
        return 0.01 * (1 + 0.6 * (index % 2)) if index < 7 else 0.01

    plan = Plan(clock, Budget(BUDGET, 0.0))
    rounds = bursty(plan, clock, slow)
    assert 7 < rounds < 30
    assert clock.now - 1000.0 < 60.0


def test_times_that_never_settle_end_with_their_share_of_the_budget():
    clock = Clock()
    bursty(Plan(clock, Budget(BUDGET, 0.0)), clock, lambda index: 0.01 * (1 + index % 4))
    by = MEASURE_SHARE * BUDGET["budget_s"]
    assert by - 5.0 < clock.now - 1000.0 < by + 5.0


def test_an_evaluation_before_the_first_step_does_not_end_the_warm_up():
    clock = Clock()
    plan = Plan(clock, within(6.0))
    clock.now += 30.0
    assert not plan.step_ended(30.1)
    clock.now += 0.1
    assert not plan.step_ended(0.1)


def test_a_phase_that_is_given_up_comes_no_more():
    clock = Clock()
    plan = Plan(clock, within(6.0))
    while plan.phase != RESIDENT:
        plan.begin_if_settled()
        clock.now += 0.01
        if plan.step_ended(0.01):
            plan.advance()
    plan.give_up(RESIDENT)
    assert plan.phase == INPUT
    assert RESIDENT not in names(play(plan, clock))


@pytest.mark.parametrize(("left", "most"), [(60, 36), (400, 210)])
def test_a_loop_that_ends_soon_keeps_half_of_its_steps_for_what_comes_after(left, most):
    clock = Clock()
    began = clock.now
    plan = Plan(clock, Budget(BUDGET, 0.0), phases=(REAL,), left=lambda: left)
    bursty(plan, clock, lambda index: 0.01 * (1 + index % 4))
    assert plan.phase == DONE
    assert (clock.now - began) / 0.01 < 3 * most


def test_replayed_steps_that_are_far_quicker_do_not_use_a_loop_up_that_counts_its_steps():
    """A loader that takes ten times as long as the model, for six hundred steps."""
    clock, made, total = Clock(), 0, 600
    plan = Plan(clock, Budget(BUDGET, 0.0), phases=(REAL, RESIDENT), left=lambda: total - made)
    rounds = 0
    while plan.phase != DONE and made < total:
        block = plan.block
        plan.begin_if_settled()
        seconds = 0.002 if block.phase == RESIDENT else 0.02
        clock.now += seconds
        made += 1
        if plan.step_ended(seconds):
            if block.phase != WARM_UP:
                plan.timed(block.phase, clock.now - block.started, block.steps)
                rounds += block.phase == RESIDENT
            plan.advance()
    assert plan.phase == DONE
    assert rounds >= ROUNDS
    assert total - made >= 0.4 * total

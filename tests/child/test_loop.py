"""The plan of phases, on a clock that only the test moves."""

import pytest

from trainperf.child.loop import (
    DONE,
    INPUT,
    PROFILE,
    REAL,
    RESIDENT,
    WARM_UP,
    WARM_UP_STEPS,
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


ROUND = [REAL, RESIDENT, INPUT]


def test_phases_alternate_in_three_rounds_after_the_warm_up():
    clock = Clock()
    phases = play(Plan(clock, 6.0), clock)
    assert names(phases) == [WARM_UP, *ROUND, PROFILE, *ROUND, *ROUND]
    assert [index for phase, index, _ in phases if phase == REAL] == [0, 1, 2]


def test_the_time_asked_for_is_kept():
    clock = Clock()
    plan = Plan(clock, 6.0)
    began = clock.now
    play(plan, clock)
    assert clock.now - began == pytest.approx(6.0, rel=0.1)


def test_only_the_phases_that_can_be_had_are_planned():
    clock = Clock()
    phases = play(Plan(clock, 6.0, phases=(REAL,)), clock)
    assert set(names(phases)) == {WARM_UP, REAL, PROFILE}


def test_warm_up_ends_when_the_last_steps_agree():
    clock = Clock()
    plan = Plan(clock, 6.0)
    durations = [3.0, 0.5, 0.1, 0.02, 0.011, 0.010, 0.010, 0.009]
    ended = [plan.step_ended(one) for one in durations]
    assert ended == [False] * 7 + [True]


def test_warm_up_ends_all_the_same_when_steps_never_agree():
    clock = Clock()
    plan = Plan(clock, 6.0)
    count = 0
    while not plan.step_ended(0.01 if count % 2 else 0.1):
        count += 1
    assert count + 1 == WARM_UP_STEPS


def test_warm_up_of_slow_steps_ends_after_its_time():
    clock = Clock()
    plan = Plan(clock, 6.0)
    assert not plan.step_ended(5.0)
    clock.now += 10.0
    assert plan.step_ended(5.0)


def test_disturbed_steps_do_not_help_a_warm_up_to_settle():
    plan = Plan(Clock(), 6.0)
    assert not any(plan.step_ended(0.01, usual=False) for _ in range(10))
    assert [plan.step_ended(0.01) for _ in range(4)] == [False, False, False, True]


def test_settling_steps_after_another_phase_are_not_counted():
    clock = Clock()
    plan = Plan(clock, 6.0)
    while plan.block.index == 0 or plan.phase != REAL:
        if plan.phase == INPUT:
            plan.advance()
            continue
        plan.begin_if_settled()
        clock.now += 0.01
        if plan.step_ended(0.01):
            plan.advance()
    assert plan.settling
    assert not plan.begin_if_settled()
    plan.step_ended(0.01)
    plan.step_ended(0.01)
    assert plan.block.steps == 0
    assert plan.begin_if_settled()


def test_slow_steps_make_do_with_two_rounds_of_two():
    clock = Clock()
    phases = play(Plan(clock, 8.0), clock, step=4.0)
    assert names(phases).count(REAL) <= 2
    assert all(steps >= 2 for phase, _, steps in phases if phase == REAL)


def test_very_slow_steps_end_the_plan_soon_after_its_first_round():
    clock = Clock()
    phases = play(Plan(clock, 8.0), clock, step=20.0)
    assert len([phase for phase, index, _ in phases if index > 0]) <= 1
    assert REAL in names(phases)
    assert RESIDENT in names(phases)


@pytest.mark.parametrize("steps", [3, 30, 300])
def test_a_wanted_number_of_real_steps_is_timed(steps):
    clock = Clock()
    phases = play(Plan(clock, 6.0, steps=steps), clock)
    assert sum(count for phase, _, count in phases if phase == REAL) == steps


def test_a_phase_that_is_given_up_comes_no_more():
    clock = Clock()
    plan = Plan(clock, 6.0)
    while plan.phase != RESIDENT:
        plan.begin_if_settled()
        clock.now += 0.01
        if plan.step_ended(0.01):
            plan.advance()
    plan.give_up(RESIDENT)
    assert plan.phase == INPUT
    assert RESIDENT not in names(play(plan, clock))


def test_giving_up_every_phase_ends_the_plan():
    clock = Clock()
    plan = Plan(clock, 6.0)
    while plan.phase == WARM_UP:
        if plan.step_ended(0.01):
            plan.advance()
    for phase in (REAL, RESIDENT, INPUT, PROFILE):
        plan.give_up(phase)
    assert plan.phase == DONE
    assert not plan.wants_more

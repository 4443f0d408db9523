"""The slices of a soak, on a clock that only the test moves."""

from fakes import Clock
from looping import within
from trainperf.child.timing.loop import DONE, REAL, WARM_UP
from trainperf.child.timing.soak.plan import SoakPlan


def soaked(seconds, step=0.01):
    """A soak of equal steps to its end: the phases of its blocks, and the looks it took."""
    clock, looks, phases = Clock(), [], []
    plan = SoakPlan(clock, within(1.0), seconds, looks.append)
    while plan.phase != DONE:
        assert not plan.wants_more
        plan.begin_if_settled()
        clock.tick(step)
        if plan.step_ended(step):
            phases.append((plan.phase, plan.block.steps))
            plan.advance()
    return phases, looks


def test_a_soak_takes_real_steps_only_until_its_time_is_over():
    phases, _ = soaked(20.0)
    assert phases[0][0] == WARM_UP
    assert {phase for phase, _ in phases[1:]} == {REAL}
    assert 1900 < sum(steps for _, steps in phases[1:]) < 2200


def test_it_looks_before_each_slice_and_behind_the_last_one():
    phases, looks = soaked(5.0)
    assert len(looks) == len(phases)
    assert looks[0] == phases[0][1]
    assert looks[-1] == sum(steps for _, steps in phases)


def test_slow_steps_make_slices_of_their_own_length():
    phases, _ = soaked(60.0, step=2.0)
    assert {steps for _, steps in phases[1:]} <= {2, 3, 4}

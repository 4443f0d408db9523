"""The ledger of calls: each moment of a step belongs to one part, by a clock that is set."""

import pytest

from trainperf.child.torch.step.calls import Ledger


class Clock:
    """Says what it is told, and counts how often the device was waited for."""

    def __init__(self):
        self.now = 100.0
        self.waits = 0

    def __call__(self):
        return self.now

    def sync(self):
        self.waits += 1


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def ledger(clock):
    return Ledger(clock, clock.sync)


def spend(clock, ledger, part, seconds, inner=(), what=""):
    call = ledger.enter(part, what, None)
    clock.now += seconds
    for other, inside in inner:
        spend(clock, ledger, other, inside)
    ledger.leave(call)


def seconds(ledger):
    return {key.part: pytest.approx(one.seconds) for key, one in ledger.sums.items()}


def test_a_call_inside_another_part_is_not_taken_unless_it_is_a_closure_s(ledger):
    assert ledger.takes("forward")
    assert ledger.takes("sync")
    ledger.enter("forward", "", None)
    assert not ledger.takes("forward")
    assert not ledger.takes("sync")
    ledger.enter("optimizer", "step", None)
    assert ledger.takes("forward")
    assert ledger.takes("backward")
    assert ledger.takes("sync")


def test_what_happens_before_a_step_is_not_of_it(clock, ledger):
    spend(clock, ledger, "evaluation", 3.0)
    clock.now += 1.0
    spend(clock, ledger, "forward", 2.0)
    ledger.step_ended(2.5)
    assert seconds(ledger) == {"forward": 2.0}
    assert [(key.part, one.seconds, one.calls) for key, one in ledger.outside.items()] == [
        ("evaluation", 3.0, 1)
    ]


def test_the_optimizer_gets_what_its_closure_leaves(clock, ledger):
    spend(clock, ledger, "optimizer", 1.0, inner=[("forward", 2.0), ("backward", 4.0)])
    ledger.step_ended(7.5)
    assert seconds(ledger) == {"optimizer": 1.0, "forward": 2.0, "backward": 4.0}
    assert (ledger.steps, ledger.seconds) == (1, 7.5)


def test_a_call_that_a_step_ends_in_is_shared_by_both_steps_and_counted_once(clock, ledger):
    call = ledger.enter("optimizer", "step", None)
    clock.now += 2.0
    ledger.step_ended(2.0)
    clock.now += 1.0
    ledger.leave(call)
    ledger.step_ended(1.0)
    [one] = ledger.sums.values()
    assert (one.seconds, one.calls, one.steps) == (3.0, 1, 1)


def test_a_call_that_never_left_does_not_swallow_the_steps_that_follow(clock, ledger):
    ledger.enter("optimizer", "step", None)
    ledger.step_ended(0.0)
    assert not ledger.takes("optimizer")
    ledger.step_ended(0.0)
    assert ledger.takes("optimizer")


def test_leaving_a_part_leaves_what_in_it_has_raised(clock, ledger):
    outer = ledger.enter("optimizer", "step", None)
    ledger.enter("forward", "", None)
    ledger.leave(outer)
    assert ledger.takes("sync")
    assert not ledger.open


def test_a_step_that_is_not_kept_leaves_no_trace(clock, ledger):
    spend(clock, ledger, "forward", 2.0)
    ledger.step_ended(2.0, kept=False)
    assert (ledger.steps, ledger.sums) == (0, {})


def test_each_edge_waits_for_the_device(clock, ledger):
    spend(clock, ledger, "forward", 1.0)
    assert clock.waits == 2


def test_what_was_measured_elsewhere_is_added(clock, ledger):
    clock.now += 1.5
    ledger.add("input", 1.5)
    ledger.step_ended(1.5)
    assert seconds(ledger) == {"input": 1.5}

"""The ledger of calls: each moment of a step belongs to one part, by a clock that is set."""

import pytest

from emulation.clock import MarkedClock
from emulation.device import Device
from kit.child import Clock
from trainperf.child.timing.device import HostClock, Mark
from trainperf.child.torch.step.calls import Ledger


@pytest.fixture
def clock():
    made = Clock()
    made.now = 100.0
    return made


@pytest.fixture
def ledger(clock):
    return Ledger(HostClock(clock))


def ended(clock, ledger, seconds, **kept):
    """A step ends now that began so many seconds ago."""
    ledger.step_ended(Mark(clock.now - seconds), Mark(clock.now), **kept)


def spend(clock, ledger, part, seconds, inner=(), what=""):
    call = ledger.enter(part, what, None)
    clock.now += seconds
    for other, inside in inner:
        spend(clock, ledger, other, inside)
    ledger.leave(call)


def seconds(ledger):
    return {key.part: pytest.approx(one.seconds) for key, one in ledger.sums.items()}


def test_the_optimizer_gets_what_its_closure_leaves(clock, ledger):
    spend(clock, ledger, "optimizer", 1.0, inner=[("forward", 2.0), ("backward", 4.0)])
    ended(clock, ledger, 7.5)
    assert seconds(ledger) == {"optimizer": 1.0, "forward": 2.0, "backward": 4.0}
    assert (ledger.steps, ledger.seconds) == (1, 7.5)


def test_a_call_that_a_step_ends_in_is_shared_by_both_steps_and_counted_once(clock, ledger):
    call = ledger.enter("optimizer", "step", None)
    clock.now += 2.0
    ended(clock, ledger, 2.0)
    clock.now += 1.0
    ledger.leave(call)
    ended(clock, ledger, 1.0)
    [one] = ledger.sums.values()
    assert (one.seconds, one.calls) == (3.0, 1)


def test_a_call_that_never_left_does_not_swallow_the_steps_that_follow(clock, ledger):
    ledger.enter("optimizer", "step", None)
    ended(clock, ledger, 0.0)
    assert not ledger.takes("optimizer")
    ended(clock, ledger, 0.0)
    assert ledger.takes("optimizer")


def test_nothing_before_the_first_step_is_charged_to_its_input(clock):
    """The first part may be one that is only added."""
    ledger = Ledger(MarkedClock(Device(clock, clock.tick)))
    ledger.begin()
    began = Mark(clock.now, {})
    clock.tick(0.5)
    ledger.add("input", 0.5)
    assert [last.host - first.host for _, first, last in ledger._spans] == [0.5]
    assert began.host == 100.0

"""Pauses of a loop that is seen by its updates."""

import pytest

from trainperf.evidence.events import Observed
from trainperf.evidence.outside import pauses


def seen(took, kind="update"):
    events, now = [], 0.0
    for seconds in took:
        events.append({"e": "step", "p": "real", "b": 0, "s": now, "t": now + seconds})
        now += seconds
    return Observed((), {"kind": kind}, tuple(events))


def steps(*pauses, every=50, step_s=0.04):
    return [step_s + each for pause in pauses for each in [0.0] * (every - 1) + [pause]]


def test_what_comes_at_every_so_many_steps_is_a_turn_of_them():
    turn = pauses(seen(steps(0.32, 0.3, 0.34)), 0.04)
    assert (turn.turn, turn.steps) == ("pause", 50)
    assert turn.training_s == pytest.approx(2.0)
    assert turn.seconds == pytest.approx(2.32)
    assert turn.spent[0].share == pytest.approx(0.32 / 2.32)


@pytest.mark.parametrize(
    "took",
    [
        [],
        steps(0.0, 0.0),
        steps(0.3),  # once: the machine may have paused
        steps(0.3, 1.2),  # of another length each time
        [*steps(0.3), *steps(0.3, every=4), *steps(0.3, every=90)],  # as it comes
        [*steps(*[0.7] * 13, every=1), *steps(*[0.0] * 2)],  # a neighbour that has gone
        [*steps(*[0.3] * 3, every=10), *steps(0.0, 0.0)],
    ],
)
def test_what_comes_without_a_plan_is_none(took):
    assert pauses(seen(took), 0.04) is None


def test_steps_that_compile_are_no_pauses():
    compiles = [{"e": "torch_compilation", "s": at} for at in (2.1, 4.4, 6.7)]
    whole = seen(steps(0.32, 0.3, 0.34))
    assert pauses(Observed((), whole.start, (*whole.loop, *compiles)), 0.04) is None

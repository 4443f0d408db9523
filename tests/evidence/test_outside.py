"""Time between the steps, read off the events."""

from __future__ import annotations

from typing import Any

import pytest

from recordings import FIT, block, observed, steps
from trainperf.evidence.events import Observed
from trainperf.evidence.outside import around, outside, pauses
from trainperf.model import Event, Measure, Missing, Outside

REAL = Measure(0.1, 30, (0.1,) * 3)
HERE = {"file": "/home/me/train.py", "line": 27, "function": "<module>"}
FACTS = {"e": "facts", "epochs": 2, "epoch_steps": 10}
REPEATS = {"e": "repeats", "where": {**HERE, "line": 19}, "reason": ""}


def called(n: int, seconds: float, what: str = "predict") -> dict[str, Any]:
    return {"what": what, "n": n, "seconds": seconds, "where": HERE}


def cycle(gap: float = 10.0, **fields: Any) -> Event:
    found: Event = {"e": "cycle", "gap_s": gap, "fit_s": None, "tail_s": 0.5, "complete": True}
    return {**found, "opening_s": 0.5, "calls": [], "stacks": [], "total": 0, **fields}


def found(*events: Event) -> Outside:
    value = outside(observed(FIT, FACTS, *events), REAL)
    assert isinstance(value, Outside)
    return value


def test_a_turn_is_the_fit_as_it_is_written_with_what_follows():
    turn = found(REPEATS, cycle(10.0, calls=[called(200, 9.0)]))
    assert (turn.turn, turn.steps, turn.training_s) == ("fit", 20, pytest.approx(2.0))
    # the end of each of two epochs 0.5 s, and 0.5 s until the first step
    assert turn.seconds == pytest.approx(2.0 + 1.0 + 0.5 + 10.0)
    first = turn.spent[0]
    assert (first.what, first.name, first.calls, first.seconds) == (
        "prediction",
        "predict",
        200,
        9.0,
    )
    assert first.where is not None
    assert first.where.line == 27
    assert sum(one.seconds for one in turn.spent) == pytest.approx(turn.seconds - 2.0)


def test_the_first_of_several_turns_is_left_out():
    turn = found(
        cycle(9.0, calls=[called(1, 9.0)]),
        cycle(1.0, fit_s=2.6, opening_s=0.1, calls=[called(1, 1.0)]),
        cycle(1.0, fit_s=2.6, opening_s=0.1, calls=[called(1, 1.0)]),
    )
    assert turn.spent[0].seconds == pytest.approx(1.0)
    assert turn.seconds == pytest.approx(2.6 + 1.0)


@pytest.mark.parametrize("reason", ["it is not sure that …", ""])
def test_a_loop_around_fit_that_was_not_followed_has_its_reason(reason):
    events = observed(FIT, FACTS, {**REPEATS, "reason": reason})
    value = outside(events, REAL)
    assert isinstance(value, Missing)
    assert value.reason == reason or "not reached" in value.reason
    assert around(events) is not None


def test_a_few_calls_beside_many_steps_are_nothing():
    few = {"e": "calls", "b": 0, "n": 100, "calls": [called(1, 0.05)]}
    value = outside(observed(FIT, few, block("real", 10, 100)), REAL)
    assert isinstance(value, Missing)


def evaluation(at: float, seconds: float = 2.0, every: int | None = None, **more: Any) -> Event:
    where = {**HERE, "function": "estimate_loss"}
    return {"e": "evaluation", "s": at, "seconds": seconds, "where": where, "every": every} | more


def saving(at: float, seconds: float, line: int = 7) -> Event:
    where = {**HERE, "line": line}
    return {"e": "saving", "s": at, "seconds": seconds, "where": where, "every": None}


def test_checkpoints_and_samples_beside_evaluations_are_parts_of_their_own():
    # ten steps of 0.1 s; the third and the eighth evaluate, save and draw samples for 2.5 s
    made = steps("real", [0.1, 0.1, 2.6, 0.1, 0.1, 0.1, 0.1, 2.6, 0.1, 0.1])
    for step in (made[2], made[7]):
        step["p"] = "evaluated"
    works = [evaluation(at, 1.5) for at in (100.25, 103.25)]
    works += [saving(at + 1.6, 0.6) for at in (100.25, 103.25)]
    works.append(saving(100.5, 0.1))  # within an evaluation, whose time it is
    turn = found(*made, *works)
    assert (turn.turn, turn.steps) == ("evaluation", 5)
    assert [(one.what, one.seconds) for one in turn.spent] == [
        ("evaluation", 1.5),
        ("saving", 0.6),
        ("other", pytest.approx(0.4)),
    ]


def test_an_evaluation_in_the_first_turn_of_the_steps_own_loop_comes_back():
    where = {**HERE, "line": 30}
    loop = {"e": "loop", "kind": "iterator", "framework": "torch", "phases": ["real"]}
    events = ({**loop, "where": where}, *steps("real", [0.1] * 5))
    turn = outside(observed(evaluation(50.0, every=250, loop=where), *events), REAL)
    assert isinstance(turn, Outside)
    assert turn.steps == 250
    epochs = {**where, "line": 29}
    unknown = outside(observed(evaluation(50.0, every=250, loop=epochs), *events), REAL)
    assert isinstance(unknown, Missing)


def test_calls_in_blocks_that_were_held_up_are_their_share_of_these():
    turn = found(
        {"e": "calls", "b": 0, "n": 10, "calls": [called(10, 0.6)]},
        {"e": "calls", "b": 1, "n": 10, "calls": [called(10, 3.6)]},
        block("real", 1, 10, 0),
        block("real", 4, 10, 1),
    )
    assert turn.seconds == REAL.seconds
    assert turn.spent[0].share == pytest.approx(4.2 / 5)


@pytest.mark.parametrize("held_up", [0.2, 2.0])
def test_what_each_step_saves_comes_off_the_step(held_up):
    made = steps("real", [0.3] * 5 + [0.1 + held_up])
    works = [saving(step["s"] + 0.05, 0.2) for step in made[:-1]]
    works.append(saving(made[-1]["s"] + 0.05, held_up))
    turn = outside(observed(FIT, FACTS, *made, *works), Measure(0.3, 30, (0.3,) * 3))
    assert isinstance(turn, Outside)
    assert (turn.turn, turn.steps) == ("pause", 1)
    assert turn.training_s == pytest.approx(0.1)
    assert turn.spent[0].seconds == pytest.approx(0.2)


# Pauses of a loop that is seen by its updates.


def seen(took, kind="update"):
    events, now = [], 0.0
    for seconds in took:
        events.append({"e": "step", "p": "real", "b": 0, "s": now, "t": now + seconds})
        now += seconds
    return Observed((), {"kind": kind}, tuple(events))


def pausing(*pauses, every=50, step_s=0.04):
    return [step_s + each for pause in pauses for each in [0.0] * (every - 1) + [pause]]


def test_what_comes_at_every_so_many_steps_is_a_turn_of_them():
    turn = pauses(seen(pausing(0.32, 0.3, 0.34)), 0.04)
    assert (turn.turn, turn.steps) == ("pause", 50)
    assert turn.training_s == pytest.approx(2.0)
    assert turn.seconds == pytest.approx(2.32)
    assert turn.spent[0].share == pytest.approx(0.32 / 2.32)


@pytest.mark.parametrize(
    "took",
    [
        [],
        pausing(0.0, 0.0),
        pausing(0.3),  # once: the machine may have paused
        pausing(0.3, 1.2),  # of another length each time
        [*pausing(0.3), *pausing(0.3, every=4), *pausing(0.3, every=90)],  # as it comes
        [*pausing(*[0.7] * 13, every=1), *pausing(*[0.0] * 2)],  # a neighbour that has gone
        [*pausing(*[0.3] * 3, every=10), *pausing(0.0, 0.0)],
    ],
)
def test_what_comes_without_a_plan_is_none(took):
    assert pauses(seen(took), 0.04) is None


def test_steps_that_compile_are_no_pauses():
    compiles = [{"e": "torch_compilation", "s": at} for at in (2.1, 4.4, 6.7)]
    whole = seen(pausing(0.32, 0.3, 0.34))
    assert pauses(Observed((), whole.start, (*whole.loop, *compiles)), 0.04) is None

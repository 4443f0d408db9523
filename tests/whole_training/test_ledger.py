"""The ledger of the whole training, and what the kept changes make of it."""

from dataclasses import replace

import pytest

from kit.evidence import SITE, evidence
from trainperf.model import (
    BetweenEpochs,
    Equivalence,
    Finding,
    InPlace,
    Item,
    Length,
    Missing,
    Outside,
    Spent,
    Stack,
    StartUp,
    Torch,
    Training,
)
from trainperf.model.torch.compiling import Compiling, Recompiling
from trainperf.whole_training import ledger, with_changes
from trainperf.whole_training.ledger import started_in, with_calls

TEN = Length(400, "10 epochs of 40 steps", epochs=10)
START = StartUp(12.0, imports_s=4.0, setup_s=6.0, tracing_s=1.5, first_step_s=2.0)
PAUSE = BetweenEpochs(1.0, 3, 40, validation_s=0.6, callbacks_s=0.1, restart_s=0.2)
STACK = Stack(("tf_interleave_parallel",), 2.0, 1.9, 2.1, 12, 60, None, 0.1, 0.05, once_seconds=3.0)


def made(**more):
    return ledger(evidence(**{"length_": TEN, "startup": START} | more))


def lines(whole):
    return {one.name: (one.count, one.now_s, one.after_s) for one in whole.items}


@pytest.mark.parametrize(
    "more",
    [
        {"length_": Missing("how often `for x in y` turns is not known")},
        {"startup": None},
        {"real": None},
    ],
)
def test_without_a_length_a_step_or_a_start_there_are_no_seconds_but_a_reason(more):
    whole = made(**more)
    assert whole.seconds_now is None
    assert whole.reason
    assert with_changes(whole, STACK, True) == whole


def test_start_and_steps_add_up():
    whole = made()
    assert lines(whole) == {
        "imports": (1, 4.0, None),
        "set-up": (1, 6.0, None),
        "first step, with tracing": (1, 2.0, None),
        "training steps": (399, pytest.approx(39.9), None),
    }
    assert whole.seconds_now == pytest.approx(51.9)
    assert whole.seconds_after is None


def test_the_end_of_the_process_comes_once_and_stays_as_it_is():
    whole = made(facts={"collection_s": 0.2})
    assert lines(whole)["end of the process"][:2] == (1, pytest.approx(1.1))
    after = with_changes(whole, STACK, True)
    assert lines(after)["end of the process"][2] == pytest.approx(1.1)


def test_an_evaluation_before_the_training_is_a_line_of_its_own():
    told = lines(made(startup=replace(START, evaluation_s=5.0)))
    assert told["evaluation before the training"][1] == 5.0
    assert told["set-up"][1] == 1.0


def test_what_passes_between_epochs_comes_after_each_but_opening_the_input():
    told = lines(made(between_epochs=PAUSE))
    assert told["validation"][:2] == (10, pytest.approx(6.0))
    assert told["callbacks at the ends of epochs"][:2] == (10, pytest.approx(1.0))
    assert told["opening the input again"][:2] == (9, pytest.approx(1.8))
    assert told["else between epochs"][:2] == (10, pytest.approx(1.0))
    first = lines(made(between_epochs=replace(PAUSE, first_s=0.7)))
    assert first["the first time besides (tracing)"][:2] == (1, 0.7)


def test_evaluations_within_epochs_come_as_often_as_their_steps():
    turn = Outside(
        "evaluation", 7.0, 50, 5.0, (Spent("evaluation", 2.0, 0.28, "validate"),), turns=2
    )
    told = lines(made(outside_=turn, between_epochs=PAUSE))
    assert told["evaluation (validate)"][:2] == (8, pytest.approx(16.0))
    assert "validation" not in told
    assert told["training steps"][1] == pytest.approx(39.9)


def test_what_stands_between_fits_comes_with_each():
    turn = Outside("fit", 9.0, 40, 4.0, (Spent("prediction", 5.0, 0.5, "predict"),))
    whole = made(length_=replace(TEN, fits=10), outside_=turn, between_epochs=PAUSE)
    assert lines(whole)["prediction"][:2] == (10, pytest.approx(50.0))


def test_changes_shrink_the_steps_and_cost_something_once():
    whole = with_changes(made(between_epochs=PAUSE), STACK, True)
    told = lines(whole)
    assert told["training steps"][2] == pytest.approx(39.9 / 2)
    assert told["validation"][2] == told["validation"][1]
    assert told["one-off cost"] == (1, 0.0, 3.0)
    assert whole.seconds_after == pytest.approx(whole.seconds_now - 39.9 / 2 + 3.0)
    assert whole.low == pytest.approx(whole.seconds_now - 39.9 + 39.9 / 2.1 + 3.0)
    assert whole.high == pytest.approx(whole.seconds_now - 39.9 + 39.9 / 1.9 + 3.0)
    assert whole.speedup == pytest.approx(whole.seconds_now / whole.seconds_after)


def test_slices_of_whole_epochs_hold_the_start_of_the_input_as_well():
    before = made(between_epochs=PAUSE)
    whole = with_changes(before, replace(STACK, held_s=0.2, once_seconds=0.0), True)
    assert whole.seconds_now - whole.seconds_after == pytest.approx((39.9 + 9 * 0.2) / 2)
    assert "one-off cost" not in lines(whole)


@pytest.mark.parametrize(
    ("seconds", "left"),
    [(None, [8.0, 2.0]), (12.0, [8.0, 2.0]), (4.0, [4.0]), (1.5, [1.5])],
)
def test_a_later_start_that_took_less_stands_for_the_first(seconds, left):
    items = (
        Item("start", "imports", 1, 8.0),
        Item("start", "set-up", 1, 2.0),
        Item("steps", "training steps", 9, 9.0),
    )
    whole = started_in(Training(Length(10, "10 steps"), seconds_now=19.0, items=items), seconds)
    assert [one.now_s for one in whole.items] == pytest.approx([*left, 9.0])
    assert whole.seconds_now == pytest.approx(sum(left) + 9.0)


def test_a_script_that_starts_sooner_has_a_shorter_start():
    whole = with_changes(made(), replace(STACK, once_seconds=-1.5), True)
    assert lines(whole)["first step, with tracing"][2] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("stack", "lasting"), [(None, True), (STACK, False), (replace(STACK, once_seconds=None), True)]
)
def test_what_becomes_of_the_whole_is_not_said_where_nobody_knows(stack, lasting):
    whole = with_changes(made(), stack, lasting)
    assert whole.seconds_after is None
    assert whole.seconds_now == pytest.approx(51.9)


def test_what_is_compiled_again_in_the_first_steps_has_a_line():
    seen = Recompiling("forward", 8, 60, 9.0, lasting_s=0.02, once_s=7.0)
    whole = made(torch_=Torch(compiling=Compiling(recompiling=seen)))
    assert lines(whole)["compiling again"] == (1, 7.0, None)
    assert whole.seconds_now == pytest.approx(58.9)
    changed = with_changes(whole, STACK, True)
    assert lines(changed)["compiling again"] == (1, 7.0, 7.0)


INSTEAD = InPlace(0.05, 0.005, 10.0, 8.0, 12.5, 12, 0.0)


def predicts(*ratios):
    data = {"in_place": {"ratios": list(ratios)}}
    where = (SITE,) * len(ratios)
    return Finding("", "host", "", "", None, "", Equivalence.EXACT, where, data=data)


def test_calls_of_a_callback_that_were_timed_in_place_have_a_line_of_their_own():
    spent = Spent("prediction", 0.05, 0.01, "predict", 10, SITE, 1, INSTEAD)
    turn = Outside("epoch", 5.0, 40, 4.0, (spent,))
    told = lines(made(outside_=turn, between_epochs=PAUSE))
    assert told["prediction"][:2] == (10, pytest.approx(0.5))
    assert told["callbacks at the ends of epochs"][:2] == (10, pytest.approx(0.5))
    assert told["else between epochs"][:2] == (10, pytest.approx(1.0))


def test_calls_shrink_by_what_was_timed_in_place():
    spent = Spent("prediction", 5.0, 0.5, "predict", 100, SITE, 1, INSTEAD)
    turn = Outside("fit", 9.0, 40, 4.0, (spent,))
    before = made(length_=replace(TEN, fits=10), outside_=turn)
    after = with_calls(before, [predicts((10.0, 8.0, 12.5))])
    assert lines(after)["prediction"] == (10, pytest.approx(50.0), pytest.approx(5.0))
    now = before.seconds_now
    assert after.seconds_after == pytest.approx(now - 45.0)
    assert (after.low, after.high) == (pytest.approx(now - 46.0), pytest.approx(now - 43.75))


def test_without_calls_or_a_known_whole_nothing_shrinks():
    before = made()
    assert with_calls(before, []) == before
    assert with_calls(before, [predicts(None)]) == before
    unknown = replace(before, reason="the gain lasts as long as what it mends goes on")
    assert with_calls(unknown, [predicts((10.0, 8.0, 12.5))]) == unknown

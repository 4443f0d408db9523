"""The ledger of the whole training, and what the kept changes make of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fixes.case_text import evidence_of
from trainperf.model import Equivalence, Finding, Item, Length, Stack, Training, TurnGain
from trainperf.whole_training import ledger, with_changes
from trainperf.whole_training.ledger import started_in, with_calls

CASE = evidence_of("slow_images")
START, PAUSE = CASE.startup, CASE.between_epochs
assert START is not None
assert START.imports_s is not None
assert START.setup_s is not None
assert PAUSE is not None
assert PAUSE.restart_s is not None
FIRST_S = START.to_first_step_s - START.imports_s - START.setup_s
STEPS_S = 599 * CASE.times.real
"""Thirty epochs of 20 steps; the first step is a part of the start."""

STACK = Stack(("tf_interleave_parallel",), 2.0, 1.9, 2.1, 12, 60, 0.1, 0.05, once_seconds=3.0)


def made(laid: str = "") -> Training:
    return ledger(evidence_of(f"slow_images | {laid}") if laid else CASE)


def lines(whole: Training) -> dict[str, tuple[int, Any, Any]]:
    return {item.name: (item.count, item.now_s, item.after_s) for item in whole.items}


def total(whole: Training) -> float:
    assert whole.seconds_now is not None
    return whole.seconds_now


@pytest.mark.parametrize("laid", ["length = missing", "startup = null", "times.real = missing"])
def test_without_a_length_a_step_or_a_start_there_are_no_seconds_but_a_reason(laid: str) -> None:
    whole = made(laid)
    assert whole.seconds_now is None
    assert whole.reason
    assert with_changes(whole, STACK, True) == whole


def test_start_steps_pauses_and_the_end_add_up() -> None:
    whole = made()
    rest = PAUSE.seconds - PAUSE.restart_s
    assert lines(whole) == {
        "imports": (1, START.imports_s, None),
        "set-up": (1, START.setup_s, None),
        "first step, with tracing": (1, pytest.approx(FIRST_S), None),
        "training steps": (599, pytest.approx(STEPS_S), None),
        "opening the input again": (29, pytest.approx(29 * PAUSE.restart_s), None),
        "else between epochs": (30, pytest.approx(30 * rest), None),
    }
    assert whole.seconds_now == pytest.approx(sum(item.now_s for item in whole.items))
    assert whole.seconds_after is None


def test_what_passes_between_epochs_comes_after_each() -> None:
    told = lines(
        made(
            "between_epochs.validation_s = 0.02; between_epochs.callbacks_s = 0.01; "
            "between_epochs.first_s = 0.7"
        )
    )
    assert told["validation"][:2] == (30, pytest.approx(0.6))
    assert told["callbacks at the ends of epochs"][:2] == (30, pytest.approx(0.3))
    rest = PAUSE.seconds - PAUSE.restart_s - 0.03
    assert told["else between epochs"][:2] == (30, pytest.approx(30 * rest))
    assert told["the first time besides (tracing)"][:2] == (1, 0.7)


def test_evaluations_within_epochs_come_as_often_as_their_steps() -> None:
    told = lines(
        made(
            'outside = {"turn": "evaluation", "seconds": 7.0, "steps": 50, "training_s": 5.0, '
            '"spent": [{"what": "evaluation", "seconds": 2.0, "share": 0.28, "name": "validate"}]}'
        )
    )
    assert told["evaluation (validate)"][:2] == (12, pytest.approx(24.0))
    assert "opening the input again" not in told
    assert told["training steps"][1] == pytest.approx(59.9)


def test_changes_shrink_the_steps_and_cost_something_once() -> None:
    whole = with_changes(made(), STACK, True)
    told, now = lines(whole), total(whole)
    assert told["training steps"][2] == pytest.approx(STEPS_S / 2)
    assert told["else between epochs"][2] == told["else between epochs"][1]
    assert told["one-off cost"] == (1, 0.0, 3.0)
    assert whole.seconds_after == pytest.approx(now - STEPS_S / 2 + 3.0)
    assert whole.low == pytest.approx(now - STEPS_S + STEPS_S / 2.1 + 3.0)
    assert whole.high == pytest.approx(now - STEPS_S + STEPS_S / 1.9 + 3.0)
    assert whole.seconds_after is not None


def test_slices_of_whole_epochs_hold_the_start_of_the_input_as_well() -> None:
    whole = with_changes(made(), replace(STACK, held_s=0.01, once_seconds=0.0), True)
    assert whole.seconds_after is not None
    saved = total(whole) - whole.seconds_after
    assert saved == pytest.approx((STEPS_S + 29 * 0.01) / 2)
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


@pytest.mark.parametrize(
    ("stack", "lasting"), [(None, True), (STACK, False), (replace(STACK, once_seconds=None), True)]
)
def test_what_becomes_of_the_whole_is_not_said_where_nobody_knows(
    stack: Stack | None, lasting: bool
) -> None:
    whole = with_changes(made(), stack, lasting)
    assert whole.seconds_after is None
    assert whole.seconds_now == made().seconds_now


def test_what_is_compiled_again_in_the_first_steps_has_a_line() -> None:
    again = '{"function": "forward", "count": 8, "steps": 60, "seconds": 9.0, "once_s": 7.0}'
    whole = ledger(evidence_of(f"torch_healthy | torch.compiling.recompiling = {again}"))
    assert lines(whole)["compiling again"] == (1, 7.0, None)
    assert total(whole) == pytest.approx(total(ledger(evidence_of("torch_healthy"))) + 7.0)
    assert lines(with_changes(whole, STACK, True))["compiling again"] == (1, 7.0, 7.0)


# ------------------------------------------------------------- calls that were timed in place

FITS = evidence_of("predict_between_fits")
(CALLS,) = FITS.outside.spent
assert CALLS.instead is not None
RATIO = (CALLS.instead.ratio, CALLS.instead.low, CALLS.instead.high)


def predicts(*ratios: tuple[float, float, float] | None) -> Finding:
    gain = TurnGain(1.0, 1.0, 1.0, 12, ratios)
    return Finding("", "host", "", "", None, "", Equivalence.EXACT, (CALLS.where,), in_place=gain)


def test_what_stands_between_fits_comes_with_each() -> None:
    told = lines(ledger(FITS))
    assert told["prediction"][:2] == (60, pytest.approx(60 * CALLS.seconds))
    assert "opening the input again" not in told


def test_calls_of_a_callback_that_were_timed_in_place_have_a_line_of_their_own() -> None:
    at_the_end = evidence_of(
        'predict_between_fits | outside.turn = "epoch"; between_epochs.seconds = 13.5; '
        "between_epochs.callbacks_s = 13.0"
    )
    told = lines(ledger(at_the_end))
    assert told["prediction"][:2] == (60, pytest.approx(60 * CALLS.seconds))
    others = 60 * (13.0 - CALLS.seconds)
    assert told["callbacks at the ends of epochs"][:2] == (60, pytest.approx(others))


def test_calls_shrink_by_what_was_timed_in_place() -> None:
    before = ledger(FITS)
    after = with_calls(before, [predicts(RATIO)])
    middle, least, most = (60 * CALLS.seconds * (1 - 1 / ratio) for ratio in RATIO)
    calls = 60 * CALLS.seconds
    assert lines(after)["prediction"] == (60, calls, pytest.approx(calls - middle))
    now = total(before)
    assert after.seconds_after == pytest.approx(now - middle)
    assert (after.low, after.high) == (pytest.approx(now - most), pytest.approx(now - least))

"""Calls timed in place of `predict`: their words, their bound, their gain in a turn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fixes.cases.common.cases import evidence
from fixes.cases.tf_step.calls._model_calls import between_fits, timed_in_place
from trainperf.fixes.tf_step.calls.keras_predict_in_loop import PredictInLoop
from trainperf.model import Finding, Outside

TURN = between_fits("predict")  # 12 s of 13 s, in 200 calls


def found(turn: Outside) -> Finding:
    finding = PredictInLoop().detect(evidence(outside_=turn))
    assert finding is not None
    return finding


def in_place(turn: Outside) -> Any:
    return found(turn).data.get("in_place")


def test_what_was_not_timed_gives_nothing_but_a_bound() -> None:
    assert in_place(TURN) is None
    assert "On the same inputs" not in found(TURN).text
    assert found(TURN).bound == pytest.approx(13.0)


def test_the_bound_is_what_was_measured() -> None:
    finding = found(timed_in_place(TURN))
    assert "On the same inputs `predict_on_batch` took 1.60 ms (12 pairs)" in finding.text
    assert "returned the same numbers." in finding.text
    assert finding.bound == pytest.approx(13.0 / (1.0 + 12.0 / (1.02 * 37.5)))
    assert "timed in place" in finding.bound_basis


def test_a_turn_gains_what_its_calls_save() -> None:
    gives = in_place(timed_in_place(TURN))
    assert gives["speedup"] == pytest.approx(13.0 / (1.0 + 12.0 / 37.5))
    assert (
        gives["low"]
        < gives["speedup"]
        < gives["high"]
        == pytest.approx(found(timed_in_place(TURN)).bound)
    )
    assert (gives["pairs"], gives["turn"]) == (12, "fit")
    assert gives["ratios"] == [pytest.approx((37.5, 0.98 * 37.5, 1.02 * 37.5))]


def test_of_a_turn_that_was_not_seen_whole_nobody_knows_what_it_gains() -> None:
    assert in_place(replace(timed_in_place(TURN), whole=False)) is None


def test_what_returns_other_numbers_is_not_edited() -> None:
    finding = found(timed_in_place(TURN, apart=0.2))
    assert finding.data["rows"] == [None]
    assert "in_place" not in finding.data
    assert "returned others (up to 20 % apart)" in finding.text
    assert finding.rewritable is False


def test_rounding_is_told() -> None:
    finding = found(timed_in_place(TURN, apart=3e-7))
    assert "but for rounding (at most 3e-07 apart)" in finding.text
    assert finding.data["rows"] == [1]

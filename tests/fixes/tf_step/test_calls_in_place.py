"""Calls timed in place of `predict`: their words, their bound, their gain in a turn."""

from __future__ import annotations

import pytest

from fixes.case_text import evidence_of
from trainperf.fixes.findings import shown_findings
from trainperf.fixes.tf_step.model_calls import KerasPredictInLoop
from trainperf.model import Finding

TURN = evidence_of("predict_between_fits").outside  # 12.4 s of 12.7 s, in 120 calls
(CALLED,) = TURN.spent


def found(fields: str = "") -> Finding:
    seen = evidence_of(f"predict_between_fits | {fields}")
    (finding,) = shown_findings(seen, among=[KerasPredictInLoop()])
    return finding


def gain(ratio: float) -> float:
    """Of a turn, where its calls become so many times as quick."""
    return TURN.seconds / (TURN.seconds - CALLED.seconds * (1 - 1 / ratio))


def test_what_was_not_timed_gives_nothing_but_a_bound() -> None:
    finding = found("outside.spent[0].instead = null; outside.seconds = 20.0")
    assert finding.in_place is None
    assert "On the same inputs" not in finding.text
    assert finding.bound == pytest.approx(20.0 / (20.0 - CALLED.seconds))


def test_the_bound_is_what_was_measured() -> None:
    finding, timed = found(), CALLED.instead
    assert timed is not None
    assert "On the same inputs `predict_on_batch` took 1.93 ms (12 pairs)" in finding.text
    assert "returned the same numbers." in finding.text
    assert finding.bound == pytest.approx(gain(timed.ratio))
    assert "timed in place" in finding.bound_basis


def test_a_turn_gains_what_its_calls_save() -> None:
    gives, timed = found().in_place, CALLED.instead
    assert gives is not None
    assert timed is not None
    assert gives.speedup == pytest.approx(gain(timed.ratio))
    assert (gives.low, gives.high) == pytest.approx((gain(timed.low), gain(timed.high)))
    assert gives.pairs == 12
    assert gives.ratios == (pytest.approx((timed.ratio, timed.low, timed.high)),)


def test_of_a_turn_that_was_not_seen_whole_nobody_knows_what_it_gains() -> None:
    assert found("outside.whole = false").in_place is None


def test_what_returns_other_numbers_is_not_edited() -> None:
    finding = found("outside.spent[0].instead.apart = 0.2")
    assert finding.data["rows"] == [None]
    assert finding.in_place is None
    assert "returned others (up to 20 % apart)" in finding.text
    assert finding.rewritable is False


def test_rounding_is_told() -> None:
    finding = found("outside.spent[0].instead.apart = 3e-7")
    assert "but for rounding (at most 3e-07 apart)" in finding.text
    assert finding.data["rows"] == [1]

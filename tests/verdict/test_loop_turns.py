"""Verdicts where most of the time is no training step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fixes.case_text import evidence_of
from kit.evidence import SITE, evidence
from trainperf.fixes import detect_all
from trainperf.model import (
    Equivalence,
    Evidence,
    Finding,
    Missing,
    Outcome,
    Outside,
    Trial,
    Verdict,
)
from trainperf.verdict import ranked, verdict, verdict_after
from trainperf.verdict.turns import beside_the_steps

BETWEEN_FITS = evidence_of("predict_between_fits").outside
(CALLED,) = BETWEEN_FITS.spent


def answered(case: Evidence) -> Verdict:
    return verdict(case, ranked(detect_all(case), case))


def turn(seconds: float) -> Outside:
    return replace(BETWEEN_FITS, seconds=seconds, training_s=0.7 * seconds, spent=())


def test_where_most_of_the_time_is_outside_that_is_the_verdict_and_its_cause_the_first_finding():
    case = evidence(outside_=BETWEEN_FITS, around=SITE)
    said = answered(case)
    assert said.bottleneck == "host"
    assert said.text == (
        "Held up outside the training steps: they take 1.4 % of each turn of the loop around `fit` "
        "(12.7 s); 98 % goes into `model.predict` (120 calls, predict_between_fits.py:18)."
    )
    assert ranked(detect_all(case), case)[0].id == "keras_predict_in_loop"


def test_a_turn_that_was_not_over_is_said_to_be_the_least():
    text = answered(evidence(outside_=replace(BETWEEN_FITS, whole=False), around=SITE)).text
    assert "(at least 12.7 s); at least 98 % goes" in text


def test_healthy_steps_make_no_healthy_training_where_a_fifth_is_something_else():
    assert answered(evidence()).healthy
    said = answered(evidence(outside_=turn(10.0), around=SITE))
    assert not said.healthy
    assert "they take only 70 % of each turn of the loop around `fit` (10.0 s)" in said.text


def test_a_little_beside_the_steps_leaves_them_healthy():
    little = replace(turn(10.0), training_s=9.0)
    assert answered(evidence(outside_=little, around=SITE)).healthy


def test_what_was_not_examined_is_not_called_healthy():
    said = answered(evidence(outside_=Missing("it was not waited for"), around=SITE))
    assert not said.healthy
    assert "in the loop at train.py:12, was not examined: it was not waited for." in said.text


def test_a_function_of_the_users_is_named():
    own = replace(CALLED, what="other", name="sample", calls=None)
    text = answered(evidence(outside_=replace(BETWEEN_FITS, spent=(own,)))).text
    assert text.endswith("98 % goes into `sample` (predict_between_fits.py:18).")


def test_steps_that_were_not_examined_are_not_said_to_have_nothing_to_repair():
    case = evidence(outside_=turn(10.0), around=SITE)
    said = beside_the_steps(case, examined=False)
    assert said.startswith("The training steps were not examined; they take 70 % of each turn")
    assert beside_the_steps(case, examined=True) == answered(case).text


def kept(fix: str, speedup: float, basis: Any = "steps") -> Trial:
    low, high = 0.98 * speedup, 1.02 * speedup
    return Trial(fix, Outcome.KEPT, "", speedup, low, high, 12, 60, kept=True, basis=basis)


IN_PLACE = evidence(outside_=BETWEEN_FITS, around=SITE)
CALLS = kept("keras_predict_in_loop", 9.4, "calls")
OF_STEPS = Finding(
    "keras_mixed_precision", "model", "Float32", "", 2.0, "", Equivalence.NUMERICS, (SITE,)
)


def test_the_verdict_says_what_a_repair_that_was_timed_in_place_makes_of_a_turn():
    findings = ranked(detect_all(IN_PLACE), IN_PLACE)
    said = verdict_after(IN_PLACE, findings, (CALLS,))
    assert said.text.endswith(
        "py:18). Repaired, each turn of the loop around `fit` is 9.4× (9.2 to 9.6) as fast."
    )


def test_a_repair_of_the_steps_does_not_answer_for_a_turn_that_is_mostly_something_else():
    said = verdict_after(IN_PLACE, (OF_STEPS,), (kept(OF_STEPS.id, 1.1),))
    assert said.text.startswith("Held up outside the training steps: they take 1.4 %")
    assert said.text.endswith("Repaired, the steps ran 1.10× (1.08 to 1.12) as fast.")
    alone = verdict_after(evidence(), (OF_STEPS,), (kept(OF_STEPS.id, 1.1),))
    assert alone.text.startswith("Model-bound")

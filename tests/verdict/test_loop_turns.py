"""Verdicts where most of the time is no training step."""

from __future__ import annotations

from typing import Any

import pytest

from fixes.case_text import evidence_of
from trainperf.fixes.findings import shown_findings
from trainperf.model import Equivalence, Evidence, Finding, Outcome, Trial, Verdict
from trainperf.model.training import Spent
from trainperf.verdict import ranked, verdict, verdict_after

HEALTHY = "healthy | times.real = 0.12; probes.jit_compile = 1.0"
IN_PLACE = evidence_of("predict_between_fits")


def answered(case: Evidence) -> Verdict:
    return verdict(case, ranked(shown_findings(case), case))


def turn(training_s: float) -> Evidence:
    """Healthy steps in turns of ten seconds."""
    return evidence_of(
        f'{HEALTHY}; outside = {{"turn": "fit", "seconds": 10.0, "steps": 32, '
        f'"training_s": {training_s}}}'
    )


def test_healthy_steps_make_no_healthy_training_where_a_fifth_is_something_else() -> None:
    said = answered(turn(7.0))
    assert not said.healthy
    assert said.text.startswith("Model-bound: the data is there in time")
    assert "Training steps take 70 % of each pass of the loop around `fit` (10.0 s)." in said.text
    assert answered(turn(9.0)).healthy


def test_steps_that_take_most_are_not_held_up_outside_themselves() -> None:
    seen = evidence_of("eager_agent | outside.training_s = 0.02")
    assert ranked(shown_findings(seen), seen)[0].id == "keras_eager_call"
    text = answered(seen).text
    assert text.startswith("Host-bound: A model called eagerly in a Python loop takes")
    assert "Training steps take 75 % of each step (26.7 ms)" in text


def test_a_loop_that_does_other_things_than_batches_waits_for_no_data() -> None:
    seen = evidence_of("loop_train_on_batch")
    assert answered(seen).bottleneck == "input"
    copies = Finding("a", "host", "Copies", "", 1.7, "", Equivalence.NUMERICS)
    text = "Host-bound: Copies; each step takes 1.99 ms, and it could run up to 1.70× as fast."
    assert verdict(seen, (copies,)).text == text


def test_what_comes_with_a_pause_is_not_named_before_what_makes_it() -> None:
    seen = evidence_of("sharded_checkpoints").outside
    spent = [Spent("other", 0.06, 0.25), *seen.spent]
    said = answered(evidence_of("sharded_checkpoints", {"outside.spent": spent}))
    assert "22 % goes into saving (sharded_checkpoints.py:25), and 25 % into what" in said.text


@pytest.mark.parametrize(
    ("laid", "says"),
    [
        ("outside.whole = false", "(at least 12.7 s); at least 98 % goes"),
        (
            'outside = missing "it was not waited for"',
            "in the loop at predict_between_fits.py:14, was not examined: it was not waited for.",
        ),
        (
            (
                'outside.spent[0].what = "other"; outside.spent[0].name = "sample"; '
                "outside.spent[0].calls = null"
            ),
            "98 % goes into `sample` (predict_between_fits.py:18).",
        ),
    ],
)
def test_what_is_known_of_a_turn_is_said(laid: str, says: str) -> None:
    said = answered(evidence_of(f"predict_between_fits | {laid}"))
    assert not said.healthy
    assert says in said.text


def test_turns_of_which_a_training_has_few_are_no_slices_to_be_tried() -> None:
    (found,) = (
        finding
        for finding in shown_findings(evidence_of("predict_between_fits | length.fits = 2"))
        if finding.id == "keras_predict_in_loop"
    )
    assert found.slices == "none"


def kept(fix: str, speedup: float, basis: Any = "steps") -> Trial:
    low, high = 0.98 * speedup, 1.02 * speedup
    return Trial(fix, Outcome.KEPT, "", speedup, low, high, 12, 60, kept=True, basis=basis)


OF_STEPS = Finding("keras_mixed_precision", "model", "Float32", "", 2.0, "", Equivalence.NUMERICS)


def test_the_verdict_says_what_a_repair_that_was_timed_in_place_makes_of_a_turn() -> None:
    findings = ranked(shown_findings(IN_PLACE), IN_PLACE)
    said = verdict_after(IN_PLACE, findings, (kept("keras_predict_in_loop", 9.4, "calls"),))
    assert said.text.endswith(
        "py:18). Repaired, each pass of the loop around `fit` is 9.4× (9.2 to 9.6) as fast."
    )


def test_a_repair_of_the_steps_does_not_answer_for_a_turn_that_is_mostly_something_else() -> None:
    trials = (kept(OF_STEPS.id, 1.1),)
    said = verdict_after(IN_PLACE, (OF_STEPS,), trials)
    assert said.text.startswith("Held up outside the training steps: they take 1.4 %")
    assert said.text.endswith("Repaired, the steps ran 1.10× (1.08 to 1.12) as fast.")
    alone = verdict_after(evidence_of(HEALTHY), (OF_STEPS,), trials)
    assert alone.text.startswith("Model-bound")

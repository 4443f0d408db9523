"""What is said of a change, from what its trial measured."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from trainperf.model import Control, Outcome, Proof, Trial, Trials
from trainperf.proof.answers import (
    TREE,
    checked,
    exit_status,
    judged,
    turned,
    verdict_of,
)
from trainperf.store import save_value
from trainperf.trial import Tried

QUIET = Control(1.0, 0.995, 1.005, 24, 500, floor=0.005, reproducible=True)
NOISY = replace(QUIET, low=0.9, high=1.1, floor=0.06)


def trial(low: float, high: float, outcome: Outcome = Outcome.KEPT, **fields) -> Trial:
    middle = math.sqrt(low * high)
    made = Trial("fast", outcome, "", middle, low, high, 24, 500, "losses within 0.01 %", True)
    return replace(made, **fields)


@pytest.mark.parametrize(
    ("low", "high", "control", "answer", "text"),
    [
        (0.99, 1.01, QUIET, "no difference", "No difference above 2.0 %: 1.00× (0.99 to 1.01)."),
        (0.99, 1.01, NOISY, "no difference", "No difference above 2.0 %: 1.00× (0.99 to 1.01)."),
        (0.97, 1.01, QUIET, "cannot tell", "Cannot tell: 0.99× (0.97 to 1.01) after 24 pairs"),
        (1.01, 1.09, QUIET, "cannot tell", "Cannot tell: 1.05× (1.01 to 1.09) after 24 pairs"),
        (1.03, 1.05, NOISY, "cannot tell", "Cannot tell: 1.04× (1.03 to 1.05) after 24 pairs"),
        (0.93, 0.96, NOISY, "cannot tell", "Cannot tell: 0.94× (0.93 to 0.96) after 24 pairs"),
        (0.93, 0.96, QUIET, "slower", "Slower: 0.94× (0.93 to 0.96)."),
        (1.03, 1.05, QUIET, "faster", "Faster and trains the same: 1.04× (1.03 to 1.05)."),
        (1.03, 1.05, None, "faster", "Faster and trains the same: 1.04× (1.03 to 1.05)."),
    ],
)
def test_an_interval_gives_one_of_four_answers(low, high, control, answer, text):
    proof = judged(trial(low, high), control)
    assert (proof.answer, proof.proven) == (answer, answer == "faster")
    assert proof.text.startswith(text)
    assert (proof.low, proof.high) == (low, high)


def test_what_is_asked_for_has_to_be_sure():
    proof = judged(trial(1.04, 1.08), QUIET, at_least=1.05)
    assert (proof.answer, proof.proven) == ("faster", False)
    assert proof.text == "Faster, but not surely by 1.05×: 1.06× (1.04 to 1.08)."
    assert judged(trial(1.06, 1.08), QUIET, at_least=1.05).proven


def test_what_trains_something_else_is_not_proven():
    other = trial(1.4, 1.5, Outcome.LOSSES_DIFFER, same=False, parity="losses part at update 3")
    proof = judged(other, QUIET)
    assert (proof.answer, proof.proven, proof.same_training) == ("faster", False, False)
    assert proof.text == (
        "Faster, but it trains something else: losses part at update 3; 1.45× (1.40 to 1.50)."
    )
    same = trial(1.4, 1.5, Outcome.CHANGES)
    batch = judged(same, QUIET, other_steps="a step holds 64 samples, not 32")
    assert (batch.proven, batch.same_training) == (False, False)
    assert "trains something else: a step holds 64 samples, not 32;" in batch.text


def test_steps_that_are_faster_in_a_training_that_is_not_are_not_proven():
    proof = judged(trial(1.4, 1.5, Outcome.LOSES, reason="it costs 9 s once"), QUIET)
    assert not proof.proven
    assert "but not the training: it costs 9 s once" in proof.text


def test_what_failed_and_what_was_not_tried_say_why():
    failed = Trial("fast", Outcome.FAILED, "fails: ValueError: no")
    late = Trial("fast", Outcome.NOT_TRIED, "out of budget")
    assert judged(failed, QUIET).text == "With the change the script fails: ValueError: no."
    assert judged(late, QUIET).text == "Cannot tell: out of budget."
    assert (judged(failed, QUIET).answer, judged(late, QUIET).answer) == ("failed", "cannot tell")


FASTER, SLOWER, NONE, UNTOLD, FAILED = (
    judged(trial(1.4, 1.5), QUIET),
    judged(trial(0.7, 0.8), QUIET),
    judged(trial(0.99, 1.01), QUIET),
    judged(trial(0.9, 1.2), QUIET),
    Proof("broken", "failed", "With the change the script fails."),
)


@pytest.mark.parametrize(
    ("proofs", "status"),
    [
        ((FASTER,), 0),
        ((FAILED, UNTOLD, FASTER), 0),
        ((SLOWER,), 1),
        ((NONE,), 1),
        ((NONE, FAILED), 1),
        ((replace(FASTER, proven=False),), 1),
        ((UNTOLD,), 2),
        ((NONE, UNTOLD), 2),
        ((FAILED,), 3),
        ((FAILED, FAILED), 3),
    ],
)
def test_the_exit_status_is_that_of_the_best_answer(proofs, status):
    assert exit_status(proofs) == status


def test_of_several_the_fastest_proven_one_is_the_verdict():
    faster = replace(FASTER, name="b", speedup=2.0, text="Faster: 2×.")
    assert verdict_of((FASTER, faster, SLOWER)) == "b: faster: 2×."
    assert verdict_of((SLOWER, FAILED)) == (
        "None of the changes is proved to be faster (fast: slower; broken: failed)."
    )


def test_seen_from_the_tree_a_faster_revision_is_a_slower_tree():
    seen = turned(replace(FASTER, memory_before=1, memory_after=2), "check failed")
    assert (seen.name, seen.answer, seen.proven) == (TREE, "slower", False)
    assert (seen.low, seen.high) == pytest.approx((1 / 1.5, 1 / 1.4))
    assert (seen.memory_before, seen.memory_after) == (2, 1)


@pytest.mark.parametrize(
    ("low", "high", "control", "outcome", "status"),
    [
        (0.99, 1.01, QUIET, "passed", 0),
        (0.7, 0.8, QUIET, "passed", 0),
        (1.02, 1.04, QUIET, "passed", 0),
        (1.04, 1.08, QUIET, "undecided", 0),
        (1.06, 1.10, QUIET, "failed", 1),
        (1.06, 1.065, replace(NOISY, floor=0.08), "undecided", 0),
        (0.99, 1.01, replace(NOISY, floor=0.08), "undecided", 0),
    ],
)
def test_a_check_fails_where_a_step_surely_takes_longer(low, high, control, outcome, status):
    tried = Tried(Trials("side by side"), control=control, step_s=0.1)
    check = checked(judged(trial(low, high), control), tried, 0.05, False, "main")
    assert (check.outcome, check.exit_status) == (outcome, status)
    assert check.times is not None
    assert check.times.before_s == pytest.approx(0.1 / math.sqrt(low * high))
    strict = checked(judged(trial(low, high), control), tried, 0.05, True, "main")
    assert strict.exit_status == int(outcome != "passed")


def test_a_check_that_could_compare_nothing_tells_no_times(tmp_path: Path) -> None:
    failed = Trial("main", Outcome.FAILED, "made no step")
    tried = Tried(Trials("none", reason="nothing to try"), (failed,))
    check = checked(judged(failed, None), tried, 0.05, False, "main")
    assert (check.outcome, check.times) == ("undecided", None)
    save_value(check, tmp_path / "check.json")  # in which no number may be NaN

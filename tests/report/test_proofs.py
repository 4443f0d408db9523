"""The report on changes that were to be proved."""

from __future__ import annotations

from dataclasses import replace

from reporters.rendering import text
from reporters.samples import INPUT_BOUND, TRIED
from trainperf.model import Outcome, Proof, Trial
from trainperf.report.sections.proofs import to_prove

PROOF = Proof(
    "a.diff", "faster", "Faster and trains the same: 1.50× (1.45 to 1.55).", True, True,
    1.5, 1.45, 1.55, 0.1, 32, 32, 3 * 2**30, 3 * 2**30,
)  # fmt: skip
TRIAL = Trial(
    "a.diff", Outcome.KEPT, "", 1.5, 1.45, 1.55, 20, 400, "losses within 0 %", True, kept=True
)
PROVED = replace(
    TRIED, findings=(), practices=(), trials=(TRIAL,), stack=None, proofs=(PROOF,),
    verdict=replace(INPUT_BOUND.verdict, text=PROOF.text),
)  # fmt: skip


def test_the_whole_report_has_the_answer_and_the_step() -> None:
    report = text(PROVED, 100)
    assert "With the change" in report
    assert "waiting for data" in report
    assert "causes that trainperf knows" not in report


def test_of_several_each_has_its_own_answer() -> None:
    slower = replace(PROOF, name="b", answer="slower", text="Slower: 0.90×.", proven=False)
    report = text(replace(PROVED, proofs=(PROOF, slower)), 100, full=False)
    assert "  a.diff: Faster and trains the same" in report
    assert "  b: Slower: 0.90×." in report


def test_another_batch_is_told_in_samples() -> None:
    larger = replace(PROOF, samples_after=64)
    report = text(replace(PROVED, proofs=(larger,)), 120, full=False)
    assert "320 → 480 samples/s in steps of 64 samples, not 32" in report
    other = replace(larger, same_training=False)
    report = text(replace(PROVED, proofs=(other,)), 120, full=False)
    assert "Same training  no: a step holds 64 samples, not 32" in report


def test_a_finding_that_somebody_has_to_repair_says_how_that_is_proved() -> None:
    finding = replace(INPUT_BOUND.findings[0], rewritable=False)
    told = to_prove(finding, INPUT_BOUND)
    assert told == (
        "Once it is changed, `trainperf try --diff change.diff -- slow_images.py` proves it."
    )
    assert to_prove(replace(finding, rewritable=True), INPUT_BOUND) == ""
    assert to_prove(replace(finding, where=()), INPUT_BOUND) == ""
    assert to_prove(finding, replace(INPUT_BOUND, practices=(finding,))) == ""
    job = replace(INPUT_BOUND, command=("torchrun", "train.py"))
    assert "-- torchrun train.py`" in to_prove(finding, job)

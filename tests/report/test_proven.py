"""A diagnosis once the trials are over: the verdict is made after them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from recordings import recording
from trainperf.diagnose import _proven
from trainperf.fixes.common.torch_cases import torch_evidence
from trainperf.model import Diagnosis, Evidence, Finding, Outcome, Trial, Trials
from trainperf.model.findings import Equivalence
from trainperf.report.assemble.diagnosis import assemble
from trainperf.trial import Tried
from trainperf.verdict import verdict


def first(evidence: Evidence, findings: tuple[Finding, ...], root: Path) -> Diagnosis:
    made = assemble(recording(), evidence, findings, verdict(evidence, findings), None)
    return replace(made, cwd=str(root))


def tried(*trials: Trial) -> Tried:
    return Tried(Trials("side by side"), trials)


HIDDEN = Finding(
    "torch_autocast",
    "model",
    "The model computes in float32",
    "Nothing was probed.",
    None,
    "",
    Equivalence.NUMERICS,
)


def test_a_hidden_repair_that_a_trial_kept_is_shown_and_named(tmp_path: Path) -> None:
    case = torch_evidence()
    kept = Trial("torch_autocast", Outcome.KEPT, "", 1.43, 1.38, 1.49, kept=True)
    before = first(case, (), tmp_path)
    assert before.verdict.healthy
    after = _proven(before, case, (HIDDEN,), tried(kept))
    assert [one.id for one in after.findings] == ["torch_autocast"]
    assert not after.verdict.healthy
    assert after.verdict.text.startswith("Model-bound: the data is there in time")
    assert "The model computes in float32. Repaired, the script ran" in after.verdict.text
    assert "1.43×" in after.verdict.text


def test_what_came_to_nothing_is_part_of_the_claim_of_health(tmp_path: Path) -> None:
    case = torch_evidence()
    nothing = Trial("torch_autocast", Outcome.NO_EFFECT, "", 1.0, 0.98, 1.02)
    after = _proven(first(case, (), tmp_path), case, (HIDDEN,), tried(nothing))
    assert after.findings == ()
    assert after.verdict.healthy
    assert "torch_autocast" in after.verdict.text


def test_a_bound_that_was_exceeded_is_noted(tmp_path: Path) -> None:
    case = torch_evidence()
    found = replace(HIDDEN, bound=1.2)
    kept = Trial("torch_autocast", Outcome.KEPT, "", 1.43, 1.38, 1.49, kept=True, bound=1.2)
    after = _proven(first(case, (found,), tmp_path), case, (), tried(kept))
    assert any(note.startswith("a bound was exceeded: torch_autocast") for note in after.notes)

"""A diagnosis once the trials are over: the verdict is made after them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import zoo
from fixes.case_text import evidence_of
from recordings import recording
from rewriting import finding_of
from trainperf.diagnose import Request
from trainperf.diagnose.judging import _freed, _proven, edits_in
from trainperf.fixes import by_id
from trainperf.model import (
    Diagnosis,
    Evidence,
    Finding,
    Outcome,
    OwnCode,
    Patch,
    Site,
    Trial,
    Trials,
)
from trainperf.model.findings import Equivalence
from trainperf.report.assemble.diagnosis import assemble
from trainperf.rewrite.diff import unified
from trainperf.trial import Tried
from trainperf.verdict import verdict


def first(evidence: Evidence, findings: tuple[Finding, ...], root: Path) -> Diagnosis:
    made = assemble(recording(), evidence, findings, verdict(evidence, findings), None)
    return replace(made, cwd=str(root))


def tried(*trials: Trial) -> Tried:
    return Tried(Trials("side by side"), trials)


HEALTHY = evidence_of("emulated_hidden | probes.compile = 1.0")

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
    kept = Trial("torch_autocast", Outcome.KEPT, "", 1.43, 1.38, 1.49, kept=True)
    before = first(HEALTHY, (), tmp_path)
    assert before.verdict.healthy
    after = _proven(before, HEALTHY, (HIDDEN,), tried(kept), edits_in(str(tmp_path)))
    assert [one.id for one in after.findings] == ["torch_autocast"]
    assert not after.verdict.healthy
    assert after.verdict.text.startswith("Model-bound: the data is there in time")
    assert "The model computes in float32. Repaired, the steps ran" in after.verdict.text
    assert "1.43×" in after.verdict.text


def test_where_steps_wait_for_their_input_the_rest_is_what_may_pay_without_it(
    tmp_path: Path,
) -> None:
    """A `PyDataset` makes each batch in 31 ms, while the step of 1 ms before it runs."""

    def failed(fix: object, error: Exception) -> None:
        raise error

    recorded = zoo.load("loop_pydataset")
    request = Request(recorded.recording.run, tmp_path)
    freed = _freed(request, recorded.evidence, (HIDDEN,))
    assert freed is not None
    by_name = {one.id: one for one in freed.findings}
    assert by_name["keras_steps_per_execution"].bound_basis.endswith("; once the input is free")
    assert by_name["torch_autocast"] is HIDDEN, "what was found before and is not priced anew"
    assert {one.category for one in freed.findings} <= {"model", "host", "sync"}
    healthy = zoo.load("healthy").evidence
    assert _freed(request, healthy, (HIDDEN,)) is None


def test_what_came_to_nothing_is_part_of_the_claim_of_health(tmp_path: Path) -> None:
    nothing = Trial("torch_autocast", Outcome.NO_EFFECT, "", 1.0, 0.98, 1.02)
    after = _proven(
        first(HEALTHY, (), tmp_path), HEALTHY, (HIDDEN,), tried(nothing), edits_in(str(tmp_path))
    )
    assert after.findings == ()
    assert after.verdict.healthy
    assert "torch_autocast" in after.verdict.text


BATCH = Finding(
    "batch_size",
    "model",
    "The batch may be larger",
    "",
    None,
    "",
    Equivalence.SEMANTICS,
    rewritable=True,
    samples_per_step=2,
)


def changing(variant: str, speedup: float, reason: str) -> Trial:
    low, high = speedup - 0.1, speedup + 0.1
    return Trial("batch_size", Outcome.CHANGES, reason, speedup, low, high, 12, 96, variant=variant)


def test_what_changes_the_experiment_stands_apart_with_what_was_measured(tmp_path: Path) -> None:
    most, less = changing("batch=64", 2.0, "in no patch"), changing("batch=32", 1.5, "gives less")
    patch = Patch("a diff", ("batch_size",))
    done = replace(
        tried(most, less),
        apart=((most, patch),),
        choices={"batch_size": replace(BATCH, samples_per_step=4)},
        step_s=0.1,
    )
    after = _proven(first(HEALTHY, (), tmp_path), HEALTHY, (BATCH,), done, edits_in(str(tmp_path)))
    (change,) = after.experiment_changes
    assert (change.finding.id, change.finding.samples_per_step) == ("batch_size", 4)
    assert (change.unit, change.before_per_s) == ("samples", pytest.approx(40.0))
    assert [one.variant for one in change.ways] == ["batch=64", "batch=32"]
    assert (change.ways[0].speedup, change.ways[0].low) == (2.0, 1.9)
    assert "half as many updates" in change.why
    assert "Keras" not in change.why
    assert (change.losses_differ, change.patch) == (False, patch)
    assert after.findings == ()
    assert (after.stack, after.verdict.healthy) == (None, True)
    assert "batch_size" not in after.verdict.text


def test_a_fix_whose_losses_differed_says_so_and_counts_steps_without_a_batch(
    tmp_path: Path,
) -> None:
    case = evidence_of("emulated_hidden | probes.compile = 1.0; loop.batch_size = null")
    differs = Trial(
        "torch_autocast", Outcome.LOSSES_DIFFER, "losses part at step 9.", 1.6, 1.5, 1.7, 12, 96
    )
    done = replace(tried(differs), apart=((differs, Patch("", ())),), step_s=0.1)
    after = _proven(first(case, (), tmp_path), case, (HIDDEN,), done, edits_in(str(tmp_path)))
    (change,) = after.experiment_changes
    assert change.why == "It was to keep the numbers, but losses part at step 9."
    assert change.losses_differ
    assert (change.unit, change.before_per_s) == ("steps", pytest.approx(10.0))


@pytest.mark.parametrize("edited", [False, True])
def test_advice_on_code_that_the_patch_edits_is_answered(tmp_path: Path, edited: bool) -> None:
    file = tmp_path / "train.py"
    file.write_text("one()\ntwo()\n")
    line = 1 if edited else 2
    own = finding_of(
        by_id()["own_function"],
        title="`act` takes the step",
        text="",
        bound=2.0,
        bound_basis="",
        where=(Site(str(file), line, "act"),),
        own=OwnCode("`act`", "call", "scores", 0.4, surely=True),
    )
    setting = replace(own, id="torch_workers")  # of the same line, and no edit of it answers it
    kept = Trial("torch_autocast", Outcome.KEPT, "", 1.43, 1.38, 1.49, kept=True)
    diff = unified("train.py", file.read_text(), "three()\ntwo()\n")
    patch = Patch(diff, ("torch_autocast",), root=str(tmp_path))
    done = replace(tried(kept), patch=patch, sources={str(file): b"three()\ntwo()\n"})
    after = _proven(
        first(HEALTHY, (own, setting), tmp_path), HEALTHY, (HIDDEN,), done, edits_in(str(tmp_path))
    )
    left = {one.id for one in after.findings}
    assert left == {"torch_autocast", "torch_workers"} | (set() if edited else {"own_function"})
    assert any("own_function is not listed" in note for note in after.notes) is edited

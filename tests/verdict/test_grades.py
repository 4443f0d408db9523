"""How sure a verdict is: settled, probable or not examined; and when a loop is called healthy."""

from __future__ import annotations

from dataclasses import replace

import pytest

import zoo
from fixes.case_text import evidence_of
from trainperf.fixes.findings import shown_findings
from trainperf.model import Equivalence, Finding, Missing, Outcome, Trial, Trials, Verdict
from trainperf.verdict import held_by_spinning, spinning, verdict, verdict_after
from trainperf.verdict.grades import tried

HEALTHY = "emulated_hidden | probes.compile = 1.0"


def finding(id: str, bound: float | None, category: str = "model") -> Finding:
    return Finding(id, category, f"Title of {id}", "text", bound, "basis", Equivalence.EXACT)  # type: ignore[arg-type]


def trial(fix: str, outcome: Outcome, speedup: float | None = None, **fields: object) -> Trial:
    kept = outcome is Outcome.KEPT
    made = Trial(fix, outcome, "", speedup, kept=kept)
    if speedup is not None:
        made = replace(made, low=0.95 * speedup, high=1.05 * speedup)
    return replace(made, **fields)  # type: ignore[arg-type]


def said(case: str, *findings: Finding) -> Verdict:
    return verdict(evidence_of(case), findings)


def after(case: str, findings: tuple[Finding, ...], *trials: Trial) -> Verdict:
    return verdict_after(evidence_of(case), findings, trials)


# -------------------------------------------------------------------------------- grades

UNSETTLED = "small_files | times.waiting_noise = 0.3"
"""A step that loses 39 % to its input, if that is so."""


def test_where_times_settle_nothing_the_stacks_name_the_suspect() -> None:
    loud = "times.real = 0.0278 ± 0.02; times.resident = 0.0272 ± 0.02"
    answer = said(f"torch_slow_transform | {loud}")
    assert (answer.bottleneck, answer.grade) == ("input", "probable")
    assert "at most 4.3×" in answer.text
    assert "67 % of 88 samples" in answer.text
    assert "`Pictures.__getitem__`" in answer.text


def test_an_input_finding_is_a_suspect_where_nothing_else_tells() -> None:
    answer = said(f"{UNSETTLED}; use = []", finding("tf_map_parallel", 1.5, "input"))
    assert (answer.bottleneck, answer.grade) == ("input", "probable")
    assert answer.text.startswith("Probably input-bound, at most 1.50×: Title of tf_map_parallel;")


@pytest.mark.parametrize(("host", "named"), [(0.0056, True), (0.0035, False)])
def test_host_work_is_named_where_no_more_than_it_may_be_waiting(host: float, named: bool) -> None:
    answer = said(
        "checkpoint_every_batch | times.resident = 0.0235 ± 0.003; times.waiting_noise = null; "
        f"times.host = {host}"
    )
    assert ("is spent outside the model's step" in answer.text) is named


# ------------------------------------------------------------------------------- healthy


def test_healthy_is_not_said_of_noisy_times() -> None:
    assert said(f"{HEALTHY}; times.real = 0.15 ± 0.013").healthy
    answer = said(f"{HEALTHY}; times.real = 0.15 ± 0.027")
    assert not answer.healthy
    assert answer.grade == "probable"


def test_healthy_is_not_said_where_nothing_was_taken_apart() -> None:
    answer = said("healthy | times.resident = missing")
    assert (answer.healthy, answer.grade) == (False, "not examined")


def test_healthy_is_not_said_where_a_probe_that_applies_was_not_made() -> None:
    answer = said('emulated_hidden | probes.compile = missing "too little time"')
    assert (answer.healthy, answer.grade) == (False, "not examined")
    assert "not examined: compile (too little time)" in answer.text
    assert "a longer --budget" in answer.text


# ---------------------------------------------------------------------------- after trials


def test_after_trials_healthy_names_what_was_tried() -> None:
    slower = trial("torch_compile", Outcome.SLOWER, 0.9)
    answer = after(HEALTHY, (), slower, trial("torch_autocast", Outcome.NO_EFFECT, 1.0))
    assert answer.healthy
    assert answer.text.endswith(
        "; 2 changes were tried on the script (torch_compile, torch_autocast), none made it faster."
    )


@pytest.mark.parametrize("case", ["slow_images", "emulated_hidden"])
def test_what_was_tried_in_vain_is_said_once(case: str) -> None:
    found = finding("tf_map_parallel", 2.0, "input")
    answer = after(case, (found,), trial(found.id, Outcome.SLOWER, 0.9))
    told = "; one change was tried on the script (tf_map_parallel), which made it no faster"
    assert answer.text.count(told) == 1


def test_a_trial_tells_what_the_probe_would_have_told() -> None:
    assert not after("emulated_hidden", ()).healthy
    assert after("emulated_hidden", (), trial("torch_compile", Outcome.NO_EFFECT, 1.0)).healthy


def test_what_was_not_tried_for_want_of_time_is_not_examined() -> None:
    untried = trial("torch_compile", Outcome.NOT_TRIED, reason="out of budget")
    assert after(HEALTHY, (), untried).healthy, "not time decided that"
    answer = after(HEALTHY, (), replace(untried, late=True))
    assert (answer.healthy, answer.grade) == (False, "not examined")
    assert "torch_compile (out of budget); a longer --budget would examine it" in answer.text


def test_a_model_whose_findings_were_all_rejected_is_healthy() -> None:
    found = finding("torch_compile", 7.8)
    assert "up to 7.8×" in said(HEALTHY, found).text
    answer = after(HEALTHY, (found,), trial("torch_compile", Outcome.SLOWER, 0.9))
    assert answer.healthy
    assert "7.8" not in answer.text


def test_advice_that_cannot_be_tried_keeps_the_verdict_open() -> None:
    found = (finding("torch_compile", 7.8), finding("torch_sdpa", 1.5))
    answer = after(HEALTHY, found, trial("torch_compile", Outcome.SLOWER, 0.9))
    assert not answer.healthy
    assert "up to 1.50×" in answer.text


def test_a_kept_repair_on_another_side_of_the_step_overrules_the_times() -> None:
    workers = finding("torch_workers", 1.3, "input")
    answer = after(HEALTHY, (workers,), trial("torch_workers", Outcome.KEPT, 2.0))
    assert answer.bottleneck == "input"
    assert answer.text.startswith("Input-bound: Title of torch_workers. Repaired")


def test_what_sleeping_at_barriers_made_of_the_script_is_told() -> None:
    passive = Trials("side by side", passive=True)
    seen = evidence_of("emulated_hidden")
    (note,) = spinning(seen, passive, 0.05)
    assert "took 50.0 ms in the trials, without it 150 ms in the observed run" in note
    assert list(spinning(seen, passive, 0.11)) == []
    assert list(spinning(seen, passive, 0.04)) == []  # then the verdict begins with it
    told = verdict(seen, ())
    assert held_by_spinning(told, seen, passive, 0.06) == told
    held = held_by_spinning(told, seen, passive, 0.04)
    assert held.bottleneck == "environment"
    assert not held.healthy
    assert held.text.endswith(told.text)
    assert "a step took 150 ms; with OMP_WAIT_POLICY=passive" in held.text
    assert list(spinning(seen, Trials("side by side"), 0.05)) == []
    assert list(spinning(seen, passive, None)) == []


def test_a_gain_that_noise_hides_is_not_said_to_be_none():
    why = "not told from noise in 24 pairs"
    hidden = Trial("torch_autocast", Outcome.NO_EFFECT, why, 1.56, 0.98, 2.29, 24, 60)
    small = Trial("torch_compile", Outcome.NO_EFFECT, "", 1.01, 0.98, 1.02, 24, 60)
    assert tried((hidden,)).endswith("a gain of torch_autocast could not be told from noise")
    assert tried((small,)).endswith("which made it no faster")
    assert "none surely made it faster; a gain of torch_autocast" in tried((hidden, small))


@pytest.mark.parametrize("speedup", [1.19, 4.0])
def test_a_repair_on_another_side_that_saves_less_does_not_answer_for_what_a_step_loses(
    speedup: float,
) -> None:
    """A generator takes nine tenths of each step, and only its overhead was repaired."""
    repaired = trial("keras_steps_per_execution", Outcome.KEPT, speedup)
    found = (
        finding("keras_steps_per_execution", 1.09, "host"),
        finding("tf_generator", 11, "input"),
    )
    answer = after("rows_one_by_one", found, repaired)
    assert answer.bottleneck == "input"
    assert answer.text.startswith("Input-bound: ")
    gave = f"Repaired, the steps ran {speedup}×"
    assert f"Title of keras_steps_per_execution. {gave}" in answer.text


def test_of_several_kept_changes_the_verdict_says_what_they_gave_together() -> None:
    saved = zoo.diagnosed("slow_images")
    assert saved.stack is not None
    stack = replace(saved.stack, speedup=3.5, low=3.3, high=3.7)
    judged = saved.evidence, saved.findings, saved.trials
    alone = verdict_after(*judged).text
    assert alone.endswith("Repaired, the steps ran 3.2× (2.8 to 3.5) as fast.")
    assert verdict_after(*judged, stack).text == alone.replace(
        "3.2× (2.8 to 3.5) as fast", "3.5× (3.3 to 3.7) as fast with both kept changes"
    )
    assert verdict_after(*judged, replace(stack, together=False)).text == alone


def test_a_change_that_failed_is_not_said_to_be_no_faster() -> None:
    assert tried((trial("torch_item_work", Outcome.FAILED),)) == ""


def test_a_step_that_another_experiment_shortens_is_not_called_healthy() -> None:
    buckets = replace(finding("tf_padding_buckets", 2.2), equivalence=Equivalence.SEMANTICS)
    changed = trial("tf_padding_buckets", Outcome.CHANGES, 1.81)
    answer = after(HEALTHY, (buckets,), changed)
    assert (answer.healthy, answer.bottleneck) == (False, "model")
    assert answer.text == (
        "Model-bound: Title of tf_padding_buckets. Changed, it trained 1.81× (1.72 to 1.90) "
        "as fast, as another experiment."
    )


def test_a_probe_of_what_the_script_does_not_have_leaves_it_healthy() -> None:
    seen = evidence_of(HEALTHY)
    absent = replace(seen, probes={"fused": Missing("gradients are sparse", applies=False)})
    assert verdict(absent, ()).healthy
    assert not verdict(replace(seen, probes={"fused": Missing("too little time")}), ()).healthy


@pytest.mark.parametrize(
    ("gave", "begins"),
    [(1.08, "Host-bound: 6"), (3.0, "Model-bound: Title of torch_fused_optimizer. Repaired")],
)
def test_code_that_takes_far_more_than_a_repair_gave_stays_the_answer(
    gave: float, begins: str
) -> None:
    seen = evidence_of("ranking_loop")
    own = next(one for one in shown_findings(seen) if one.id == "own_function")
    found = (finding("torch_fused_optimizer", 1.1), own)
    kept = (trial("torch_fused_optimizer", Outcome.KEPT, gave),)
    text = verdict_after(seen, found, kept).text
    assert text.startswith(begins)
    assert "Title of torch_fused_optimizer. Repaired, the steps ran" in text
    assert ("`ranking_loss`, ranking_loop.py:30" in text) == (gave < 2)

"""How sure a verdict is: settled, probable or not examined; and when a loop is called healthy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kit.evidence import SITE, evidence
from kit.torch_evidence import torch_evidence
from trainperf.model import (
    Equivalence,
    Evidence,
    Finding,
    Missing,
    Outcome,
    PhaseUse,
    StackSamples,
    Times,
    Trial,
    Trials,
    Verdict,
)
from trainperf.verdict import spinning, verdict, verdict_after
from trainperf.verdict.healthy import tried


def finding(id: str, bound: float | None, category: str = "model", **fields: object) -> Finding:
    made = Finding(id, category, f"Title of {id}", "text", bound, "basis", Equivalence.EXACT)  # type: ignore[arg-type]
    return replace(made, **fields)  # type: ignore[arg-type]


def trial(fix: str, outcome: Outcome, speedup: float | None = None, **fields: object) -> Trial:
    kept = outcome is Outcome.KEPT
    made = Trial(fix, outcome, "", speedup, kept=kept)
    if speedup is not None:
        made = replace(made, low=0.95 * speedup, high=1.05 * speedup)
    return replace(made, **fields)  # type: ignore[arg-type]


def noisy(case: Evidence, by: float) -> Evidence:
    """The same evidence with step times that vary by a share."""
    taken = case.times
    loud = [
        m
        if isinstance(m, Missing)
        else replace(m, low=(1 - by) * m.seconds, high=(1 + by) * m.seconds)
        for m in (taken.real_, taken.resident_)
    ]
    return replace(case, times=Times(loud[0], loud[1], taken.input_, taken.host_))


# -------------------------------------------------------------------------------- grades


def test_what_neighbouring_blocks_tell_is_settled_however_the_times_drift() -> None:
    case = noisy(evidence(resident=0.04, input=0.09), 0.4)
    answer = verdict(replace(case, times=replace(case.times, waiting_noise=0.03)), ())
    assert (answer.bottleneck, answer.grade) == ("input", "settled")


def test_where_times_settle_nothing_the_stacks_name_the_suspect() -> None:
    case = noisy(torch_evidence(resident=0.098, input=0.05, seen=StackSamples(200, 0.5)), 1.2)
    answer = verdict(case, ())
    assert (answer.bottleneck, answer.grade) == ("input", "probable")
    assert "at most 2.3×" in answer.text
    assert "50 % of 200 samples" in answer.text
    assert "`Images.__getitem__`" in answer.text


def test_without_stacks_the_cpu_seconds_name_the_suspect() -> None:
    use = (PhaseUse("real", 20, cpu_cores=2.0), PhaseUse("resident", 20, cpu_cores=1.0))
    answer = verdict(noisy(evidence(resident=0.07, input=0.05, use=use), 1.2), ())
    assert (answer.bottleneck, answer.grade) == ("input", "probable")
    assert "200 ms of CPU time, and 70.0 ms with its batch at hand" in answer.text


def test_host_work_is_named_where_no_more_than_it_may_be_waiting() -> None:
    answer = verdict(noisy(evidence(resident=0.09, input=0.05, host=0.02), 0.2), ())
    assert (answer.bottleneck, answer.grade) == ("host", "settled")


def test_cpu_seconds_say_nothing_of_an_input_that_takes_next_to_none_alone() -> None:
    use = (PhaseUse("real", 20, cpu_cores=2.0), PhaseUse("resident", 20, cpu_cores=1.0))
    answer = verdict(noisy(evidence(resident=0.07, input=0.0004, use=use), 1.2), ())
    assert answer.bottleneck != "input"


def test_an_input_finding_is_a_suspect_where_nothing_else_tells() -> None:
    answer = verdict(
        noisy(evidence(resident=0.06), 1.2), (finding("tf_map_parallel", 1.5, "input"),)
    )
    assert (answer.bottleneck, answer.grade) == ("input", "probable")
    assert answer.text.startswith("Probably input-bound, at most 1.50×: Title of tf_map_parallel;")


def test_nobody_is_told_to_run_again_on_a_quieter_machine() -> None:
    for by in (0.05, 0.2, 0.6, 2.4):
        for case in (
            evidence(),
            evidence(resident=0.07),
            torch_evidence(),
            torch_evidence(resident=None),
        ):
            assert "quieter" not in verdict(noisy(case, by), ()).text


def test_the_users_own_function_is_the_verdict_whatever_the_noise() -> None:
    data = {"kind": "optimizer", "share": 0.47, "name": "`Adam.step`", "does": "updates tensors"}
    own = finding("own_function", 1.9, "host", where=(SITE,), data=data)
    answer = verdict(noisy(torch_evidence(), 1.2), (own, finding("batch_size", 1.5)))
    assert (answer.bottleneck, answer.grade) == ("host", "settled")
    assert answer.text == (
        "Host-bound: 47 % of each step passes in `Adam.step`, train.py:12, which updates tensors."
    )


# ------------------------------------------------------------------------------- healthy


def test_healthy_is_not_said_of_noisy_times() -> None:
    assert verdict(noisy(evidence(), 0.09), ()).healthy
    answer = verdict(noisy(evidence(), 0.18), ())
    assert not answer.healthy
    assert answer.grade == "probable"


def test_healthy_is_not_said_where_nothing_was_taken_apart() -> None:
    answer = verdict(evidence(resident=None), ())
    assert (answer.healthy, answer.grade) == (False, "not examined")


@pytest.mark.parametrize(
    ("reason", "would"),
    [
        ("too little time was left", "a longer --budget"),
        ("not taken where several processes train together", "in one process"),
        ("RuntimeError: out of order", "a longer --budget"),
    ],
)
def test_healthy_is_not_said_where_a_probe_that_applies_was_not_made(
    reason: str, would: str
) -> None:
    answer = verdict(torch_evidence(probes={"autocast": Missing(reason)}), ())
    assert (answer.healthy, answer.grade) == (False, "not examined")
    assert f"not examined: autocast ({reason})" in answer.text
    assert would in answer.text


# ---------------------------------------------------------------------------- after trials


def test_after_trials_healthy_names_what_was_tried() -> None:
    trials = (
        trial("torch_compile", Outcome.SLOWER, 0.9),
        trial("torch_autocast", Outcome.NO_EFFECT, 1.0),
    )
    answer = verdict_after(torch_evidence(), (), trials)
    assert answer.healthy
    assert answer.text.endswith(
        "; 2 changes were tried on the script (torch_compile, torch_autocast), none made it faster."
    )


def test_a_trial_tells_what_the_probe_would_have_told() -> None:
    case = torch_evidence(probes={"compile": Missing("too little time was left")})
    assert not verdict_after(case, (), ()).healthy
    assert verdict_after(case, (), (trial("torch_compile", Outcome.NO_EFFECT, 1.0),)).healthy


def test_what_was_not_tried_for_want_of_time_is_not_examined() -> None:
    late = trial("torch_compile", Outcome.NOT_TRIED, reason="out of budget")
    answer = verdict_after(torch_evidence(), (), (late,))
    assert (answer.healthy, answer.grade) == (False, "not examined")
    assert "torch_compile (out of budget); a longer --budget would examine it" in answer.text


def test_a_model_whose_findings_were_all_rejected_is_healthy() -> None:
    found = finding("torch_compile", 7.8)
    case = torch_evidence()
    assert "up to 7.8×" in verdict(case, (found,)).text
    answer = verdict_after(case, (found,), (trial("torch_compile", Outcome.SLOWER, 0.9),))
    assert answer.healthy
    assert "7.8" not in answer.text


def test_advice_that_cannot_be_tried_keeps_the_verdict_open() -> None:
    found = (finding("torch_compile", 7.8), finding("torch_sdpa", 1.5))
    answer = verdict_after(torch_evidence(), found, (trial("torch_compile", Outcome.SLOWER, 0.9),))
    assert not answer.healthy
    assert "up to 1.50×" in answer.text


def test_a_kept_repair_on_another_side_of_the_step_overrules_the_times() -> None:
    workers = finding("torch_workers", 1.3, "input")
    answer = verdict_after(
        torch_evidence(), (workers,), (trial("torch_workers", Outcome.KEPT, 2.0),)
    )
    assert answer.bottleneck == "input"
    assert answer.text.startswith("Input-bound: Title of torch_workers. Repaired")


def test_a_verdict_of_before_is_settled() -> None:
    assert Verdict("model", "text").grade == "settled"


def test_what_sleeping_at_barriers_made_of_the_script_is_told() -> None:
    passive = Trials("side by side", passive=True)
    seen = evidence(real=0.4)
    (note,) = spinning(seen, passive, 0.05)
    assert "took 50.0 ms in the trials, without it 400 ms in the observed run" in note
    assert list(spinning(seen, passive, 0.3)) == []
    assert list(spinning(seen, Trials("side by side"), 0.05)) == []
    assert list(spinning(seen, passive, None)) == []


def test_what_huge_pages_made_of_the_script_is_told() -> None:
    huge = Trials("side by side", huge_pages=True)
    (note,) = spinning(evidence(real=0.045), huge, 0.028)
    assert "hugetlb=1 a step of the unchanged script took 28.0 ms" in note
    assert list(spinning(evidence(real=0.045), huge, 0.04)) == []


def test_a_gain_that_noise_hides_is_not_said_to_be_none():
    why = "not told from noise in 24 pairs"
    hidden = Trial("torch_autocast", Outcome.NO_EFFECT, why, 1.56, 0.98, 2.29, 24, 60)
    small = Trial("torch_compile", Outcome.NO_EFFECT, "", 1.01, 0.98, 1.02, 24, 60)
    assert tried((hidden,)).endswith("a gain of torch_autocast could not be told from noise")
    assert tried((small,)).endswith("which made it no faster")
    assert "none surely made it faster; a gain of torch_autocast" in tried((hidden, small))

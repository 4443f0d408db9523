"""The order of findings, and what a step is said to be bound by."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fixes.case_text import evidence_of
from trainperf.fixes.findings import shown_findings
from trainperf.model import Equivalence, Finding, Outcome, OwnCode, Trial, Verdict
from trainperf.verdict import after_trials, ranked, verdict
from trainperf.verdict.steps import input_culprit


def finding(
    id: str,
    bound: float | None,
    category: Any = "input",
    equivalence: Equivalence = Equivalence.EXACT,
    **fields: Any,
) -> Finding:
    return Finding(id, category, f"Title of {id}", "text", bound, "basis", equivalence, **fields)


# ---------------------------------------------------------------------------- findings

A, B = finding("a", 1.5), finding("b", 2.0)
UNUSED = finding("gpu_build", None, "environment", Equivalence.ENVIRONMENT)
OWN = finding("own_function", 1.4, "host", own=OwnCode("`act`", "call", "scores", 0.5, surely=True))
LARGER = finding("batch_size", 1.9, "model", Equivalence.SEMANTICS)
ITEM = finding("torch_item_work", 9.0)
WORKERS = finding("torch_workers", 2.0, rewritable=True)
SMALL = finding("storage_small_files", 6.0, "storage")
FAR = finding("s3_request_latency", None, "storage")


@pytest.mark.parametrize(
    ("findings", "ids"),
    [
        # the largest bound first
        ([finding("c", 1.3), B, A], "b a c"),
        # what lies within the noise is dropped
        ([finding("c", 1.04)], ""),
        # of equals the one with a patch, then the name decides
        ([replace(B, id="c"), B, replace(B, id="d", bound=2.001, rewritable=True)], "d b c"),
        # a GPU that is not used, and a function of the user's own that takes the step
        ([finding("a", 30.0), OWN, UNUSED], "gpu_build own_function a"),
        ([A, replace(OWN, own=None)], "a own_function"),
        ([OWN, WORKERS], "torch_workers own_function"),
        # a change of the experiment counts half
        ([LARGER, finding("a", 1.6)], "a batch_size"),
        # new code stands right behind the edit that is to be tried first
        ([ITEM, WORKERS, A], "torch_workers torch_item_work a"),
        ([ITEM, replace(WORKERS, bound=12.0), A], "torch_workers torch_item_work a"),
        ([ITEM, replace(WORKERS, rewritable=False), A], "torch_item_work torch_workers a"),
        ([ITEM, A], "torch_item_work a"),
        # storage before the making of samples that it explains, and last where it costs no step
        ([ITEM, SMALL], "storage_small_files torch_item_work"),
        ([ITEM, replace(SMALL, bound=1.2)], "torch_item_work storage_small_files"),
        ([FAR, A], "a s3_request_latency"),
    ],
)
def test_findings_stand_in_the_order_in_which_they_are_worth_a_look(
    findings: list[Finding], ids: str
) -> None:
    found = ranked(findings, evidence_of("emulated_hidden"))
    assert " ".join(finding.id for finding in found) == ids


def test_what_lies_within_the_noise_of_a_loud_step_is_dropped() -> None:
    loud = evidence_of("emulated_hidden | times.real = 0.1 ± 0.03")
    assert ranked([A, finding("c", 1.7)], loud) == (finding("c", 1.7),)


def test_what_lies_between_epochs_is_not_hidden_by_the_noise_of_steps() -> None:
    noisy = evidence_of(
        "healthy | between_epochs.seconds = 8.0; between_epochs.restart_s = 7.5; "
        "times.real = 0.12 ± 0.05"
    )
    assert "keras_epoch_end" in [finding.id for finding in ranked(shown_findings(noisy), noisy)]


@pytest.mark.parametrize(
    ("case", "told"),
    [
        ("averaged_in_numpy", False),  # the callback's method: its own fix tells of it
        ("ranking_loop", True),  # no other finding is of those lines
    ],
)
def test_what_only_tells_what_lines_take_is_silent_where_a_finding_is_of_them(
    case: str, told: bool
) -> None:
    evidence = evidence_of(case)
    found = [one.id for one in ranked(shown_findings(evidence), evidence)]
    assert ("own_function" in found) is told
    assert len(found) > told


def test_after_the_trials_what_was_kept_comes_first_by_what_it_gave() -> None:
    trials = [
        Trial("slower", Outcome.SLOWER, "", speedup=0.9),
        Trial("batch_size", Outcome.CHANGES, "", speedup=1.8),
        Trial("late", Outcome.NOT_TRIED, ""),
        Trial("a", Outcome.KEPT, "", speedup=1.2, kept=True),
        Trial("b", Outcome.KEPT, "", speedup=2.0, kept=True),
    ]
    findings = (finding("slower", 9.0), LARGER, FAR, finding("late", 3.0), A, B)
    found = after_trials(findings, trials, evidence_of("emulated_hidden"))
    ids = " ".join(finding.id for finding in found)
    assert ids == "b a s3_request_latency late batch_size slower"


def test_what_came_out_alike_has_the_cause_before_what_hides_it() -> None:
    several, rarer = "keras_steps_per_execution", "keras_callback_per_batch"
    trials = [Trial(several, Outcome.CHANGES, "", speedup=5.0)]
    trials += [Trial(rarer, Outcome.CHANGES, "", speedup=3.0)]
    findings = (finding(several, 5.0), A, finding(rarer, 3.0))
    found = after_trials(findings, trials, evidence_of("checkpoint_every_batch"))
    assert [finding.id for finding in found] == ["a", rarer, several]


# ----------------------------------------------------------------------------- verdict


def said(case: str, *findings: Finding) -> Verdict:
    return verdict(evidence_of(case), findings)


def test_a_healthy_script_is_called_healthy() -> None:
    answer = said("healthy | times.real = 0.12; probes.jit_compile = 1.0")
    assert answer.healthy
    assert answer.bottleneck == "none"
    assert answer.text.startswith("Healthy: 98 %")
    assert answer.utilization == pytest.approx(0.982, abs=0.001)


def test_nothing_measured_is_not_healthy() -> None:
    answer = said("healthy | times.real = missing")
    assert not answer.healthy
    assert answer.text == "Nothing was measured: the loop made too few steps."
    assert answer.utilization is None


def test_the_line_of_accelerator_utilisation_is_ninety_percent() -> None:
    assert said("slow_images | times.real = 0.036; times.resident = 0.0328").healthy
    below = said("slow_images | times.real = 0.036; times.resident = 0.032")
    assert below.bottleneck == "input"


@pytest.mark.parametrize(
    "case",
    [
        # an eager step that compiling does not help
        "eager_loop | times.real = 0.102; times.resident = 0.1; probes.compiled = 1.01",
        # a function that was traced again, which took little of the time
        "retracing | retracing.step_s = 0.01",
    ],
)
def test_what_costs_a_step_next_to_nothing_leaves_it_healthy(case: str) -> None:
    assert said(case).healthy


@pytest.mark.parametrize(("resident", "share"), [(0.0352, "95 %"), (0.028, "100 %")])
def test_host_work_is_no_more_than_the_whole_step(resident: float, share: str) -> None:
    """Resident steps may have been slower, and their host work with them."""
    case = f"checkpoint_every_batch | times.host = 0.0335; times.resident = {resident}"
    assert f"{share} of each step" in said(case).text


@pytest.mark.parametrize("case", ["slow_images", "ddp_straggler"])
def test_an_unused_gpu_is_the_whole_verdict(case: str) -> None:
    answer = said(case, UNUSED)
    assert answer.bottleneck == "environment"
    assert "nothing else matters" in answer.text


# ----------------------------------------------------------------------------- culprit


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ("slow_images | stages = []", "its data"),
        ("tiny_steps", "the `shuffle` at tiny_steps.py:"),
        ("tiny_steps | stages[shuffle].where = null", "`shuffle`"),
        ("slow_images | stages[map].seconds_per_step = missing", "the `batch` at slow_images.py:"),
        ('slow_images | stages[map].function.name = "<lambda>"', "the `map` at slow_images.py:"),
        ("predict_between_fits", "Keras's batching of NumPy arrays, predict_between_fits.py:15"),
        ("loop_pydataset | stages = []", "`__getitem__` of the `PyDataset`, pydataset.py:18"),
    ],
)
def test_the_culprit_of_the_input_is_the_users_own_function_where_there_is_one(
    case: str, says: str
) -> None:
    assert input_culprit(evidence_of(case)).startswith(says)


def test_a_loop_of_slow_steps_is_given_the_budget_that_may_do() -> None:
    answer = said("torch_memmap_gpt | times.real = missing; startup.to_first_step_s = 40.0")
    assert answer.text == (
        "Nothing was measured: the loop made too few steps; the first was over after 40.0 s, "
        "so --budget 8min may do."
    )


def test_steps_that_get_slower_are_told_with_what_they_were_first() -> None:
    assert "the last timed took 3.6× as long as the first" in said("growing_graph").text
    assert "get slower" not in said("kept_sessions").text

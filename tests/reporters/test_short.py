"""The report as it is printed unless `--full` asks for more."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len

from reporters.rendering import text
from reporters.samples import SAMPLES
from reporters.samples_observed import INPUT_BOUND
from reporters.samples_tried import TRIED
from trainperf.model import Ending, Outcome, Trials
from trainperf.report.whole import document

GOLDEN = Path(__file__).parent / "golden/short"
TIMED = [name for name in SAMPLES if SAMPLES[name].times.real_s is not None]
MOST = 53
"""Lines of a report with two findings, at 100 columns: about 45, with how to prove them 49."""


@pytest.mark.parametrize("name", TIMED)
def test_it_is_the_golden_one(name: str) -> None:
    report = text(SAMPLES[name], 100, full=False, saved="20261121-train")
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("TRAINPERF_WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(report, encoding="utf-8")
    assert report == path.read_text(encoding="utf-8")
    assert max(cell_len(line) for line in report.split("\n")) <= 100 or name == "hostile"


@pytest.mark.parametrize("name", TIMED)
def test_it_is_shorter_and_begins_and_ends_like_the_whole_report(name: str) -> None:
    short = text(SAMPLES[name], 100, full=False)
    full = text(SAMPLES[name], 100)
    assert short.count("\n") < full.count("\n")
    assert short.split("\n\n")[0] == full.split("\n\n")[0]
    if sample_ends_with_an_answer(name):
        assert short.split("\n")[-2] == full.split("\n")[-2]


def sample_ends_with_an_answer(name: str) -> bool:
    return document(SAMPLES[name]).section("answer") is not None


@pytest.mark.parametrize("name", TIMED)
def test_one_with_up_to_two_findings_fits_a_screen(name: str) -> None:
    sample = SAMPLES[name]
    if len(sample.findings) > 2 or sample.ending is not Ending.MEASURED or sample.parallel:
        pytest.skip("a longer story")
    assert text(sample, 100, full=False, saved="20261121-train").count("\n") <= MOST


def test_it_names_the_command_that_prints_all() -> None:
    report = text(INPUT_BOUND, full=False, saved="20261121-train")
    assert "trainperf show --full 20261121-train" in report


def test_what_was_not_measured_is_told_where_it_leaves_the_verdict_open() -> None:
    assert "Not measured" not in text(INPUT_BOUND, full=False)
    probable = replace(INPUT_BOUND, verdict=replace(INPUT_BOUND.verdict, grade="probable"))
    assert "Not measured" in text(probable, full=False)


def test_trials_that_were_interrupted_before_any_was_made_are_said_to_have_been() -> None:
    why = "interrupted before anything could be compared"
    untried = tuple(replace(one, outcome=Outcome.NOT_TRIED, reason=why) for one in TRIED.trials)
    trying = Trials("none", reason=why, interrupted=True)
    interrupted = replace(INPUT_BOUND, trials=untried, trying=trying)
    assert "Interrupted before anything could be compared." in text(interrupted, full=False)
    over = replace(interrupted, trying=replace(trying, interrupted=False))
    assert "Tried on the script itself" not in text(over, full=False)


def test_without_a_timed_step_it_is_the_whole_report() -> None:
    untimed = replace(INPUT_BOUND, times=replace(INPUT_BOUND.times, real_s=None))
    assert text(untimed, full=False) == text(untimed)

"""Changes of the experiment: in a section of their own, in every report."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from reporters.rendering import FINDINGS, TRIALS, of, part, text
from reporters.samples_observed import PARALLEL_MAP
from reporters.samples_tried import ALL_OUTCOMES, LARGER_BATCH, MIXED, NOTHING_KEPT, OTHER_LOSSES
from trainperf.model import Diagnosis, Outcome
from trainperf.report.level import failing
from trainperf.report.sections.experiment import HEADING
from trainperf.report.sections.told import answer
from trainperf.reporters import html, markdown
from trainperf.reporters.json import render

FOUND = replace(ALL_OUTCOMES, findings=(PARALLEL_MAP, LARGER_BATCH.finding, MIXED))
"""Its causes were seen before they were tried."""

BATCH = next(one for one in ALL_OUTCOMES.trials if one.fix == "batch_size")


def only(diagnosis: Diagnosis = NOTHING_KEPT) -> Diagnosis:
    """A diagnosis in which nothing else made the script faster."""
    trials = (*diagnosis.trials, BATCH)
    return replace(diagnosis, trials=trials, experiment_changes=(LARGER_BATCH,))


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("diagnosis", [ALL_OUTCOMES, FOUND])
def test_it_has_its_rates_before_and_after_with_intervals(diagnosis: Diagnosis, full: bool) -> None:
    told = part(text(diagnosis, 100, full=full), HEADING)
    assert "as it is 212 samples/s" in told
    assert "batch=128 434 samples/s (422 to 447) 2.05× (1.99 to 2.11)" in told
    assert "batch=64 322 samples/s (312 to 335) 1.52× (1.47 to 1.58)" in told
    assert "the learning rate adjusted" in told
    assert "half as many updates" in told


@pytest.mark.parametrize("full", [True, False])
def test_it_stands_among_no_other_advice_and_no_other_outcome(full: bool) -> None:
    report = text(FOUND, 100, full=full)
    assert report.count("The batch of 32 is too small") == 1
    assert report.count("Compute in bfloat16\n") == 1
    assert "The batch of 32" not in part(report, FINDINGS)
    if not full:
        assert "batch_size" not in part(report, TRIALS)
        assert "keras_mixed_precision" not in part(report, TRIALS)


def test_a_fix_that_trained_otherwise_stands_there_with_how_its_losses_differed() -> None:
    told = of(ALL_OUTCOMES, HEADING)
    assert "Compute in bfloat16" in told
    assert "It was to keep the numbers, but losses part by 7.3 % at step 12" in told
    assert "343 samples/s (335 to 352) 1.62× (1.58 to 1.66)" in told


def test_a_way_that_could_not_be_run_is_named_with_the_reason() -> None:
    short = replace(BATCH, outcome=Outcome.FAILED, reason="CUDA out of memory", variant="batch=256")
    diagnosis = replace(FOUND, trials=(*FOUND.trials, short))
    words = "batch=256 failed: CUDA out of memory."
    assert words in part(text(diagnosis), HEADING)
    assert words in markdown.render(diagnosis)
    assert words in html.render(diagnosis)
    assert "failed:" not in of(FOUND, HEADING)


def test_the_command_names_the_run_where_it_is_saved() -> None:
    assert "trainperf fix --only batch_size" in text(ALL_OUTCOMES)
    report = text(ALL_OUTCOMES, saved="20261121-train")
    assert "trainperf fix 20261121-train --only batch_size\n" in report
    assert "make this edit, batch=128; with --diff, see it first" in report


def test_work_is_counted_in_steps_where_the_batch_is_not_known() -> None:
    way = replace(LARGER_BATCH.ways[0], after_per_s=20.5, after_low_per_s=19.9, after_high_per_s=21)
    steps = replace(LARGER_BATCH, unit="steps", before_per_s=10.0, ways=(way,))
    told = of(replace(ALL_OUTCOMES, experiment_changes=(steps,)), HEADING)
    assert "as it is 10.0 steps/s" in told
    assert "20.5 steps/s (19.9 to 21.0)" in told


def test_without_such_a_change_there_is_no_section() -> None:
    report = text(replace(ALL_OUTCOMES, experiment_changes=()))
    assert HEADING not in report
    assert HEADING not in markdown.render(NOTHING_KEPT)


def test_the_last_line_has_no_figure_of_it() -> None:
    assert answer(only()) == (
        "No edit tried that leaves the experiment as it is made it faster; one change that alters "
        "it did, see above."
    )
    assert answer(FOUND) == answer(replace(ALL_OUTCOMES, experiment_changes=()))


def test_it_fails_no_check_that_asks_for_a_speed_up() -> None:
    found = replace(only(), findings=(LARGER_BATCH.finding,))
    assert failing(found, 1.2) == set()
    assert failing(found, "any") == {"batch_size"}
    before = replace(found, trials=(), experiment_changes=())
    assert failing(before, 1.2) == {"batch_size"}


def test_markdown_has_a_table_of_the_rates_and_the_edit() -> None:
    report = markdown.render(FOUND)
    section = report[report.index(f"### {HEADING}") :]
    assert "| batch=128 | 212 samples/s | 434 samples/s (422 to 447) | 2.05× (1.99 to 2.11) |" in (
        section
    )
    assert "+    ds = ds.batch(128)" in section
    assert "The batch of 32" not in report[: report.index(f"### {HEADING}")]
    assert "losses part by 7.3" in section


def test_the_words_that_point_up_stand_below_it() -> None:
    report = markdown.render(only())
    assert report.index(f"### {HEADING}") < report.index("see above.")


def test_json_has_the_rates_the_finding_and_the_patch() -> None:
    first, second = json.loads(render(ALL_OUTCOMES))["experiment_changes"]
    assert (first["unit"], first["before_per_s"]) == ("samples", 211.9)
    assert first["ways"][0]["variant"] == "batch=128"
    assert first["ways"][0]["after_low_per_s"] < first["ways"][0]["after_per_s"]
    assert first["patch"]["findings"] == ["batch_size"]
    assert first["finding"]["data"]["samples_per_step"] == 4
    assert (second["losses_differ"], second["why"]) == (True, OTHER_LOSSES.why)

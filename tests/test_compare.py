"""Differences of two diagnoses: what times are compared, figures, findings, and how it is said."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from reporters.samples import (
    CACHE,
    FAILED,
    INPUT_BOUND,
    ON_A_GPU,
    PARALLEL_MAP,
    PARTIAL,
    SAMPLES,
    TRIED,
    over,
    timed,
)
from trainperf.commands.compare import render
from trainperf.compare import Row, compare
from trainperf.model import Diagnosis, Framework, Ignored, Site, StepPart, Torch

A = over(
    timed(INPUT_BOUND, noise=0.02, real=0.138),
    machine=replace(INPUT_BOUND.evidence.machine, cores=8.0),
)
NOTHING = "Nothing changed beyond the noise."


def with_machine(**changes: Any) -> Diagnosis:
    return over(A, machine=replace(A.evidence.machine, **changes))


def with_loop(**changes: Any) -> Diagnosis:
    assert A.loop is not None
    return over(A, loop=replace(A.loop, **changes))


def row(a: Diagnosis, b: Diagnosis, name: str) -> Row:
    rows = [row for rows in compare(a, b).tables.values() for row in rows if row.name == name]
    assert len(rows) == 1
    return rows[0]


def words(a: Diagnosis, b: Diagnosis) -> list[tuple[str, Any, Any]]:
    found = compare(a, b).tables["Script, settings and machine"]
    return [(row.name, row.before, row.after) for row in found]


def findings(a: Diagnosis, b: Diagnosis) -> dict[str, tuple[Any, Any]]:
    return {row.name: (row.before, row.after) for row in compare(a, b).tables["Findings"]}


def text(a: Diagnosis, b: Diagnosis, width: int = 100) -> str:
    file = io.StringIO()
    render(compare(a, b), Console(file=file, width=width, color_system=None))
    return file.getvalue()


# What is no change comes first.


@pytest.mark.parametrize("name", SAMPLES)
def test_a_diagnosis_has_nothing_different_from_itself(name: str) -> None:
    found = compare(SAMPLES[name], SAMPLES[name])
    has_step = SAMPLES[name].step_s is not None
    assert found.speed == NOTHING if has_step else "say nothing" in found.speed
    assert not any(row.judged == "changed" for rows in found.tables.values() for row in rows)


@pytest.mark.parametrize("factor", [0.98, 1.0, 1.02])
def test_what_two_processes_of_one_script_differ_by_is_no_change(factor: float) -> None:
    before, after = timed(A, 0.001, real=0.138), timed(A, 0.001, real=0.138 * factor)
    assert row(before, after, "real step").judged == "within the noise"


@pytest.mark.parametrize(
    ("after_s", "noise", "changed"),
    [
        (0.152, 0.02, True),  # 0.1408 to 0.1352, 0.1490 to 0.1550
        (0.152, 0.05, False),  # 0.1449 to 0.1311, 0.1444 to 0.1596: they overlap
        (0.124, 0.02, True),
        (0.143, 0.02, False),
        (0.16, None, False),  # a tenth each way is assumed
        (0.18, None, True),
    ],
)
def test_a_time_changed_where_the_intervals_do_not_meet(
    after_s: float, noise: float | None, changed: bool
) -> None:
    found = row(timed(A, noise, real=0.138), timed(A, noise, real=after_s), "real step")
    assert (found.judged == "changed") is changed
    assert found.change == pytest.approx(after_s / 0.138 - 1)


def test_a_time_that_one_of_them_lacks_is_not_judged() -> None:
    found = row(A, timed(A, resident=None), "resident step")
    assert (found.after, found.change, found.judged) == (None, None, "not measured in both")


def test_with_another_batch_size_samples_are_compared_and_steps_are_not() -> None:
    after = timed(with_loop(batch_size=64), noise=0.02, real=0.276)
    found = compare(A, after)
    assert found.refusals == ()
    assert row(A, after, "real step").judged == "the batch size is not the same"
    assert row(A, after, "samples per second").judged == "within the noise"
    assert words(A, after) == [("batch size", "32", "64")]
    assert found.speed == "It trains as fast as before, as far as the noise lets tell."


# What makes times say nothing, and what may explain a difference.


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (A, with_machine(cpu_model="Intel Xeon"), "another processor: AMD EPYC against Intel"),
        (A, with_machine(cores=4.0), "usable cores: 8 against 4"),
        (A, with_machine(cores=7.5), "usable cores: 8 against 7.5"),
        (
            A,
            over(A, device=ON_A_GPU.evidence.device),
            "another device: 1 × CPU against 1 × NVIDIA A10G",
        ),
        (A, with_loop(replicas=2), "another number of replicas: 1 against 2"),
        (
            A,
            over(A, framework=Framework("torch", "2")),
            "another framework",
        ),
        (A, over(FAILED, machine=A.evidence.machine), "no step was timed in the second run"),
        (
            ON_A_GPU,
            over(ON_A_GPU, device=replace(ON_A_GPU.evidence.device, name="NVIDIA H100")),
            "another device: 1 × NVIDIA A10G against 1 × NVIDIA H100",
        ),
    ],
)
def test_what_makes_times_say_nothing_is_refused(
    before: Diagnosis, after: Diagnosis, says: str
) -> None:
    found = compare(before, after)
    [refusal] = found.refusals
    assert says in refusal
    assert found.speed.startswith("The times are of other circumstances")
    figures = ("Times", "Input pipeline", "Parts of a step")
    assert not any(row.judged == "changed" for title in figures for row in found.tables[title])
    assert says.partition(":")[0] in text(before, after)


# Parts, findings, trials.


def test_a_part_of_the_step_that_grew_is_a_change_and_stages_are_matched_by_name() -> None:
    before = over(A, torch_=Torch(split_=(StepPart("forward", 0.01),)))
    after = over(A, torch_=Torch(split_=(StepPart("forward", 0.02),)))
    assert row(before, after, "forward").judged == "changed"
    moved = tuple(
        replace(stage, where=stage.where and replace(stage.where, line=stage.where.line + 9))
        for stage in A.evidence.stages
    )
    assert compare(A, over(A, stages_=moved)).speed == NOTHING
    assert row(A, A, "map load_image").change == 0


def test_findings_are_there_gone_or_left_out_by_a_comment() -> None:
    other = replace(CACHE, id="tf_other", bound=1.3)
    before = replace(A, findings=(PARALLEL_MAP, CACHE))
    after = replace(A, findings=(replace(PARALLEL_MAP, bound=1.5), other))
    assert findings(before, after) == {"tf_other": ("", "found"), "tf_cache": ("found", "")}
    left = Ignored(CACHE, Site(f"{A.cwd}/train.py", 7))
    ignoring = replace(before, findings=(PARALLEL_MAP,), ignored=(left,))
    assert findings(before, ignoring) == {"tf_cache": ("found", "ignored")}
    model = replace(A, verdict=replace(A.verdict, text="other words", bottleneck="model"))
    assert findings(A, model) == {"bottleneck": ("input", "model")}


def test_trials_are_compared_where_both_made_some() -> None:
    tried = "Fixes that were tried"
    assert tried not in compare(A, TRIED).tables
    assert compare(TRIED, TRIED).tables[tried] == ()
    fewer = compare(TRIED, replace(TRIED, trials=TRIED.trials[:1])).tables[tried]
    assert fewer
    assert all(row.before and not row.after for row in fewer)


# How it is said.


@pytest.mark.parametrize("width", [40, 80, 200])
def test_any_two_fit_any_terminal(width: int) -> None:
    for sample in (*SAMPLES.values(), PARTIAL):
        for report in (text(A, sample, width), text(sample, A, width)):
            if width >= 80:
                assert max(cell_len(line) for line in report.split("\n")) <= width
            assert "\x1b" not in report

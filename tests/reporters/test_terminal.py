"""The terminal report, as text.

The golden files are written again with TRAINPERF_WRITE_GOLDEN=1.
"""

from __future__ import annotations

import ast
import io
import os
import re
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from reporters.rendering import coloured, text
from reporters.samples import HOSTILE, SAMPLES
from reporters.samples_observed import FAILED, HEALTHY, INPUT_BOUND, PARALLEL_MAP, PARTIAL, TWO_GPUS
from trainperf.model import Ending, Patch, ReportedTimes
from trainperf.reporters.terminal import render

GOLDEN = Path(__file__).parent / "golden"
ANSI = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("name", SAMPLES)
def test_the_report_at_80_columns_is_the_golden_one(name: str) -> None:
    report = text(SAMPLES[name], saved="runs/2026-11-21")
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("TRAINPERF_WRITE_GOLDEN"):
        path.write_text(report, encoding="utf-8")
    assert report == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [60, 80, 120, 167, 168, 200])
@pytest.mark.parametrize("name", SAMPLES)
def test_no_line_is_wider_than_the_terminal_but_code_that_is(name: str, width: int) -> None:
    sample = SAMPLES[name]
    code = {
        line.strip()
        for finding in (*sample.findings, *sample.practices)
        for line in finding.snippet.split("\n")
    }
    wide = {line for line in text(sample, width).split("\n") if cell_len(line) > width}
    assert wide <= code
    if width >= 80:
        assert wide == set()


@pytest.mark.parametrize("name", SAMPLES)
def test_a_very_narrow_terminal_is_survived(name: str) -> None:
    assert text(SAMPLES[name], 10)


@pytest.mark.parametrize("name", SAMPLES)
def test_no_line_ends_in_blanks(name: str) -> None:
    for width in (80, 200):
        assert [
            line for line in text(SAMPLES[name], width).split("\n") if line != line.rstrip()
        ] == []


@pytest.mark.parametrize("name", SAMPLES)
def test_without_colour_no_escape_is_written(name: str) -> None:
    assert "\x1b" not in text(SAMPLES[name])
    assert "\x1b" not in coloured(SAMPLES[name], no_color=True)


@pytest.mark.parametrize("name", SAMPLES)
def test_colour_adds_nothing_but_colour(name: str) -> None:
    report = coloured(SAMPLES[name])
    assert "\x1b[" in report
    assert ANSI.sub("", report) == text(SAMPLES[name])


@pytest.mark.parametrize("name", SAMPLES)
def test_an_output_that_knows_ascii_only_gets_ascii(name: str) -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii")
    render(SAMPLES[name], Console(file=file, width=80))
    file.flush()
    assert raw.getvalue().decode("ascii").strip()


def test_the_bar_is_made_of_signs_that_ascii_has() -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii")
    render(INPUT_BOUND, Console(file=file, width=80))
    file.flush()
    assert "###=....." in raw.getvalue().decode()


@pytest.mark.parametrize("name", SAMPLES)
def test_nothing_absent_is_printed_as_a_number_or_as_none(name: str) -> None:
    report = text(SAMPLES[name])
    assert not re.search(r"\bNone\b(?! of the causes)", report)
    assert not re.search(r"\b(nan|inf)\b", report)


def test_the_verdict_stands_first() -> None:
    assert text(INPUT_BOUND, 200).startswith(INPUT_BOUND.verdict.text[:90])


def test_a_healthy_script_is_told_so_and_nothing_is_suggested() -> None:
    report = text(replace(HEALTHY, practices=INPUT_BOUND.practices))
    assert report.startswith("Healthy:")
    assert "What to change" not in report
    assert "Time to accuracy" not in report
    assert "None of the causes" not in report
    assert "explain" not in report


def test_a_slow_script_without_a_known_cause_is_told_so() -> None:
    report = text(replace(INPUT_BOUND, findings=(), practices=(), patch=None))
    assert "No repair that trainperf knows stands out of the noise" in report


@pytest.mark.parametrize(
    "ending",
    [
        Ending.FAILED,
        Ending.SIGNALLED,
        Ending.STALLED,
        Ending.OUT_OF_BUDGET,
        Ending.INTERRUPTED,
    ],
)
def test_a_run_that_ended_early_says_first_that_the_numbers_are_partial(ending: Ending) -> None:
    first = text(replace(INPUT_BOUND, ending=ending), 200).split("\n")[0]
    assert "partial" in first


@pytest.mark.parametrize("ending", [Ending.MEASURED, Ending.FINISHED])
def test_a_run_that_was_measured_says_nothing_of_its_end(ending: Ending) -> None:
    report = text(replace(INPUT_BOUND, ending=ending, output_tail="hello"))
    assert "partial" not in report
    assert "hello" not in report


def test_a_failed_script_shows_its_last_output() -> None:
    report = text(FAILED)
    assert "TypeError: build() got an unexpected keyword argument 'num_clases'" in report
    assert report.startswith("The script failed before a step could be timed.")


def test_a_long_output_is_cut_to_its_end() -> None:
    report = text(replace(FAILED, output_tail="\n".join(f"row {i}" for i in range(99))))
    assert "row 98" in report
    assert "row 79" in report
    assert "row 78" not in report


def test_sections_without_content_are_left_out() -> None:
    report = text(PARTIAL)
    for heading in ("Callbacks", "Your functions", "What to change", "Notes", "Machine", "Tried"):
        assert heading not in report


def test_stages_are_shown_only_where_input_takes_a_tenth_of_the_step() -> None:
    assert "stage by stage" in text(INPUT_BOUND)
    fast = replace(INPUT_BOUND, times=replace(INPUT_BOUND.times, input_s=0.0137))
    assert "stage by stage" not in text(fast)


def test_a_callback_is_named_from_a_hundredth_of_the_time() -> None:
    report = text(TWO_GPUS)
    assert "TensorBoard" in report
    assert "ModelCheckpoint" not in report


def test_a_snippet_can_be_copied_and_is_python() -> None:
    long = PARALLEL_MAP.snippet.replace("load_image", "load_image_" + "x" * 80)
    for snippet in (INPUT_BOUND.findings[1].snippet, TWO_GPUS.findings[0].snippet, long):
        finding = replace(PARALLEL_MAP, snippet=snippet)
        report = text(replace(INPUT_BOUND, findings=(finding,), practices=()))
        after = report.split("order of the samples matters.")[-1].split("Not measured")[0]
        if snippet is long:
            assert long in after.split("\n")
        pasted = textwrap.dedent(after.partition("\n\n")[2])
        assert ast.dump(ast.parse(pasted)) == ast.dump(ast.parse(textwrap.dedent(snippet)))


def test_an_environment_is_set_in_the_shell() -> None:
    assert "        export TF_GPU_THREAD_MODE=gpu_private\n" in text(TWO_GPUS)


def test_the_parts_of_the_bar_add_up_to_its_width() -> None:
    for diagnosis in (INPUT_BOUND, HEALTHY, TWO_GPUS):
        bar = next(line for line in text(diagnosis).split("\n") if "██" in line)
        assert len(bar.strip()) == 60


def test_what_neither_model_nor_data_explain_is_shown_as_such() -> None:
    times = ReportedTimes(0.1, 0.04, 0.02, None, 9, None, None, None)
    report = text(replace(INPUT_BOUND, times=times))
    assert "waiting for data  20.0 ms  20 %" in report
    assert "not explained     40.0 ms  40 %" in report


def test_noise_that_makes_resident_longer_than_real_is_no_waiting() -> None:
    times = ReportedTimes(0.1, 0.101, 0.02, 0.2, 9, None, None, None)
    assert re.search(r"waiting for data +≈ 0 +0 %", text(replace(INPUT_BOUND, times=times)))


def test_a_step_that_was_not_taken_apart_has_no_bar() -> None:
    report = text(PARTIAL)
    assert "One step        2.10 ms\n" in report
    assert "█" not in report


def test_markup_in_the_users_names_is_printed_as_it_is() -> None:
    report = text(HOSTILE)
    assert "[red]x[/red]red[/] :smile:" in report
    assert "[bold]." in report


def test_the_closing_lines_name_only_commands_that_lead_somewhere() -> None:
    report = text(INPUT_BOUND, saved="run-7", patch_file="fix.diff")
    assert "git apply fix.diff" in report
    assert "trainperf show run-7" in report
    assert "trainperf explain tf_map_parallel" in report
    assert "trainperf fix run-7 --diff" in report
    assert "trainperf show" not in text(INPUT_BOUND)
    assert "trainperf fix" not in text(replace(INPUT_BOUND, patch=None), saved="run-7")
    assert "trainperf fix" not in text(replace(INPUT_BOUND, patch=Patch("", ())), saved="run-7")


def test_a_finding_without_a_bound_says_so() -> None:
    finding = replace(PARALLEL_MAP, bound=None, bound_basis="", where=(), text="", advice="")
    assert "what it can give is not known" in text(replace(INPUT_BOUND, findings=(finding,)))


def test_on_a_wide_terminal_the_costs_stand_beside_the_step() -> None:
    lines = text(TWO_GPUS, 200).split("\n")
    assert any("One step" in line and "Machine while training" in line for line in lines)


def test_a_file_beneath_the_working_directory_is_named_from_there() -> None:
    assert "/home/ada" not in text(INPUT_BOUND)
    assert "  train.py:31 in make_dataset" in text(INPUT_BOUND)


def test_a_gpu_of_which_the_driver_says_nothing_is_left_out() -> None:
    use = replace(TWO_GPUS.utilization[0], gpu=({"index": 0, "power_w": None, "throttle": []},))
    report = text(replace(TWO_GPUS, utilization=(use,)))
    assert "GPU 0" not in report
    assert "Host" in report


def test_epochs_that_did_not_end_are_not_reported_on() -> None:
    assert INPUT_BOUND.between_epochs is not None
    unseen = replace(INPUT_BOUND.between_epochs, epochs_seen=0, seconds=0.0)
    assert "Between epochs" not in text(replace(INPUT_BOUND, between_epochs=unseen))

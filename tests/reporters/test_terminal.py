"""The terminal report of a run, and what it says first and last.

The golden files are written again with TRAINPERF_WRITE_GOLDEN=1.
"""

from __future__ import annotations

import ast
import os
import re
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from reporters.rendering import coloured, text
from reporters.samples import (
    FAILED,
    HEALTHY,
    INPUT_BOUND,
    INTERRUPTED,
    KEPT,
    NOTHING_KEPT,
    ONE_KEPT,
    OTHER_EXPERIMENTS,
    OUT_OF_BUDGET,
    PARALLEL_MAP,
    SAMPLES,
    TRIED,
    TWO_GPUS,
    over,
    timed,
)
from trainperf.model import (
    Diagnosis,
    Ending,
    Function,
    Outcome,
    Patch,
)

GOLDEN = Path(__file__).parent / "golden"
SHORT = ("tried", "nothing_kept", "other_experiments", "exchange", "failed")
WHOLE = ("tried", "one_kept", "nothing_kept", "straggler", "on_a_gpu")


@pytest.mark.parametrize(
    ("name", "full"), [*((name, True) for name in WHOLE), *((name, False) for name in SHORT)]
)
def test_the_report_is_the_golden_one(name: str, full: bool) -> None:
    report = text(SAMPLES[name], 80 if full else 100, full=full, saved="20261121-train")
    path = GOLDEN / f"{name}{'' if full else '.short'}.txt"
    if os.environ.get("TRAINPERF_WRITE_GOLDEN"):
        path.write_text(report, encoding="utf-8")
    assert report == path.read_text(encoding="utf-8")


# ----------------------------------------------------------------------- the short one

TIMED = [name for name, sample in SAMPLES.items() if sample.step_s is not None]
MOST = 42
"""Lines of a report with two findings that were not tried, at 100 columns."""


@pytest.mark.parametrize(
    ("sample", "most"), [(TRIED, 40), (HEALTHY, 15), (OTHER_EXPERIMENTS, 50), (ONE_KEPT, 50)]
)
def test_a_report_fits_a_screen(sample: Diagnosis, most: int) -> None:
    assert text(sample, 90, full=False, saved="20261121-train").count("\n") <= most


@pytest.mark.parametrize("name", TIMED)
def test_the_short_report_begins_and_ends_like_the_whole_one(name: str) -> None:
    sample = SAMPLES[name]
    short, full = text(sample, 100, full=False), text(sample, 100)
    assert short.count("\n") < full.count("\n")
    assert short.split("\n\n")[0] == full.split("\n\n")[0]
    assert short.split("\n")[-2] == full.split("\n")[-2]
    if len(sample.findings) <= 2 and not sample.evidence.parallel_ and not sample.trials:
        assert short.count("\n") <= MOST


def test_the_short_report_names_the_command_that_prints_all() -> None:
    report = text(INPUT_BOUND, full=False, saved="20261121-train")
    assert "trainperf show --full 20261121-train" in report
    untimed = timed(INPUT_BOUND, real=None)
    assert text(untimed, full=False) == text(untimed)


def test_trials_that_were_interrupted_before_any_was_made_are_said_to_have_been() -> None:
    why = "interrupted before anything could be compared"
    assert INTERRUPTED.trying is not None
    trials = tuple(replace(one, reason=why) for one in OUT_OF_BUDGET.trials)
    trying = replace(INTERRUPTED.trying, mode="none", reason=why)
    early = replace(INPUT_BOUND, trials=trials, trying=trying)
    assert "Interrupted before anything could be compared." in text(early, full=False)
    over = replace(early, trying=replace(trying, interrupted=False))
    assert "Tried on the script itself" not in text(over, full=False)


# ----------------------------------------------------------------------------- the start


@pytest.mark.parametrize("ending", Ending)
def test_a_run_that_ended_early_says_first_that_the_numbers_are_partial(ending: Ending) -> None:
    report = text(replace(INPUT_BOUND, ending=ending, output_tail="hello"), 200)
    assert ("partial" in report.split("\n")[0]) is not ending.complete
    if ending.complete:
        assert "hello" not in report


def test_a_failed_script_shows_its_last_output() -> None:
    report = text(FAILED)
    assert report.startswith("The script failed before a step could be timed.")
    assert "TypeError: build() got" in report
    long = text(replace(FAILED, output_tail="\n".join(f"row {i}" for i in range(99))))
    assert "row 79" in long
    assert "row 78" not in long


def test_a_healthy_script_is_told_so_and_nothing_is_suggested() -> None:
    report = text(HEALTHY)
    assert report.startswith("Healthy:")
    for words in ("What to change", "None of the causes", "explain"):
        assert words not in report


# ------------------------------------------------------------------------------ the step


def test_a_stage_whose_call_is_not_known_stands_where_its_function_is() -> None:
    load = Function("load", f"{INPUT_BOUND.cwd}/data.py", 7)
    stages = tuple(replace(one, where=None, function=load) for one in INPUT_BOUND.evidence.stages)
    assert re.search(r"load +data\.py:7 ", text(over(INPUT_BOUND, stages_=stages), 120))


def test_a_callback_is_named_from_a_hundredth_of_the_time() -> None:
    (callback, *_) = OTHER_EXPERIMENTS.evidence.callbacks
    quick = replace(callback, name="Quick", batch_s=1e-6, epoch_s=None)
    report = text(over(OTHER_EXPERIMENTS, callbacks=(callback, quick)))
    assert callback.name in report
    assert "Quick" not in report


# --------------------------------------------------------------------------- the findings


def test_a_snippet_can_be_copied_and_is_python() -> None:
    for snippet in (PARALLEL_MAP.snippet, PARALLEL_MAP.snippet.replace("files", "f" * 90)):
        finding = replace(PARALLEL_MAP, snippet=snippet)
        report = text(replace(INPUT_BOUND, findings=(finding,)))
        after = report.split(finding.advice)[-1].split("\nThe whole training")[0]
        assert ast.dump(ast.parse(textwrap.dedent(after))) == ast.dump(ast.parse(snippet.strip()))


def test_a_bound_that_is_missing_is_said() -> None:
    finding = replace(PARALLEL_MAP, bound=None, bound_basis="", where=(), text="", advice="")
    assert "what it can give is not known" in text(replace(INPUT_BOUND, findings=(finding,)))


# -------------------------------------------------------------------------------- the end


def last(diagnosis: Diagnosis) -> str:
    """The last paragraph of a report, in one line."""
    return " ".join(text(diagnosis, 100).rstrip("\n").rpartition("\n\n")[2].split())


def test_the_last_line_is_what_the_reader_gets() -> None:
    assert "\x1b[1;32mApply these 2 changes" in coloured(TRIED)
    unknown = replace(TRIED, training=None)
    assert last(unknown).endswith("changes: 3.2× (2.8 to 3.5), a step 34.8 ms → 10.8 ms")
    assert TRIED.stack is not None
    apart = replace(TRIED.stack, together=False)
    assert last(replace(TRIED, stack=apart)).endswith("(2.8 to 3.5), not measured together")


def test_what_stands_between_epochs_is_said_not_to_be_counted_where_none_ended() -> None:
    whole = TRIED.training
    assert whole is not None
    steps = tuple(one for one in whole.items if one.part != "between")
    unseen = over(TRIED, training=replace(whole, items=steps), between_epochs=None)
    assert "(not counted: what stands between its epochs)" in last(unseen)
    assert "not counted" not in last(over(unseen, between_epochs=TRIED.evidence.between_epochs))


def test_kept_fixes_that_were_not_stacked_promise_no_more_than_was_measured() -> None:
    assert last(INTERRUPTED).startswith("Apply this change: 3.2× (2.8 to 3.5)")
    two = replace(INTERRUPTED, trials=TRIED.trials[:2])
    assert last(two) == (
        "Apply these 2 changes: tf_cache alone gives 3.2× (2.8 to 3.5), all of them together "
        "were not measured"
    )


def test_where_nothing_was_kept_the_last_line_says_so_plainly() -> None:
    healthy = replace(HEALTHY, trials=NOTHING_KEPT.trials, trying=NOTHING_KEPT.trying)
    assert last(healthy).startswith("Nothing to change: nothing that was tried made it")
    assert last(HEALTHY).startswith("Nothing to change: trainperf knows nothing")
    assert "Nothing to change" not in last(replace(HEALTHY, ending=Ending.FAILED))
    gave = {"speedup": 1.2, "low": 1.06, "high": 1.38}
    alone = replace(NOTHING_KEPT.trials[-1], reason="not repeated: out of budget", **gave)
    assert last(replace(NOTHING_KEPT, trials=(*NOTHING_KEPT.trials[:-1], alone))) == (
        f"{alone.fix} gave 1.20× (1.06 to 1.38), but is not kept: not repeated: out of budget; "
        "2 changes were not tried."
    )
    noisy = replace(NOTHING_KEPT.trials[0], outcome=Outcome.NO_EFFECT, speedup=1.06, high=1.12)
    assert last(replace(NOTHING_KEPT, trials=(noisy,))).endswith("is surely worth making.")


def test_figures_that_were_not_measured_are_called_upper_bounds() -> None:
    bounds = "The gains named are upper bounds, not measured: "
    assert last(INPUT_BOUND) == f"{bounds}no change was tried."
    assert last(OUT_OF_BUDGET).startswith(f"{bounds}the script needs 94 s to its first step")


def test_the_closing_lines_name_only_commands_that_lead_somewhere() -> None:
    assert "git apply fix.diff" in text(TRIED, saved="run-7", patch_file="fix.diff")
    assert "trainperf show" not in text(TRIED)
    for none in (None, Patch("", ())):
        assert "trainperf fix" not in text(replace(TRIED, patch=none), saved="run-7")
    slower = replace(KEPT, outcome=Outcome.SLOWER, kept=False)
    assert "explain tf_map_parallel" in text(replace(TRIED, trials=(slower, TRIED.trials[1])))


def test_the_environment_and_the_options_of_a_patch_can_be_pasted() -> None:
    both = replace(TWO_GPUS, trials=TRIED.trials, stack=TRIED.stack)
    set_first = "\nPart of the changes: set before the script starts\n"
    assert f"{set_first}  export TF_GPU_THREAD_COUNT=2\n" in text(both)
    assert "Part of the change" not in text(TRIED)
    patch = Patch("", ("torch_autocast",), arguments=("--bf16", "True"))
    made = replace(ONE_KEPT, command=("python", "a b.py", "--x"), patch=patch)
    assert "\nThe change: run the script as\n  python 'a b.py' --x --bf16 True\n" in text(made)
    assert ONE_KEPT.patch is not None
    beside = replace(made, patch=replace(patch, diff=ONE_KEPT.patch.diff))
    assert "\nPart of the changes: run the script as\n" in text(beside)


def test_the_command_to_paste_is_the_one_that_was_run() -> None:
    for command, typed in ((("torchrun",), "torchrun"), (("python", "a b.py"), "python 'a b.py'")):
        report = text(replace(OUT_OF_BUDGET, command=command))
        assert f"trainperf diagnose --budget 7min -- {typed}\n" in report

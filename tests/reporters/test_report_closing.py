"""How the report ends: the stack, the commands, the cost, and the line that counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reporters.rendering import coloured, of, text
from reporters.samples_observed import FAILED, HEALTHY, INPUT_BOUND, TWO_GPUS
from reporters.samples_tried import (
    ALL_OUTCOMES,
    HEALTHY_TRIED,
    KEPT_CACHE,
    KEPT_MAP,
    NONE_POSSIBLE,
    NOTHING_KEPT,
    ONE_KEPT,
    OUT_OF_BUDGET,
    THREE_KEPT,
    TRIALS_INTERRUPTED,
    TRIED,
)
from trainperf.model import Diagnosis, Ending, Outcome, Overhead, Patch, Verdict

TOGETHER = "The kept changes together"
WITHOUT_LEDGER = replace(TRIED, training=None)


def last(diagnosis: Diagnosis) -> str:
    """The last paragraph of a report, in one line."""
    return " ".join(text(diagnosis, 100).rstrip("\n").rpartition("\n\n")[2].split())


def test_the_last_line_is_what_the_reader_gets() -> None:
    assert last(TRIED) == (
        "Apply these 3 changes: your training as configured about 14 min 24 s → 6 min 26 s, "
        "its steps 3.4× (3.3 to 3.5)"
    )
    assert last(WITHOUT_LEDGER) == (
        "Apply these 3 changes: 3.4× (3.3 to 3.5), 212 → 721 samples/s, an epoch 41 min → 12 min"
    )
    assert "\x1b[1;32mApply these 3 changes" in coloured(TRIED)


def test_what_stands_between_epochs_is_said_not_to_be_counted_where_none_ended() -> None:
    whole = TRIED.training
    assert whole is not None
    assert whole.configured is not None
    steps = tuple(one for one in whole.items if one.part != "between")
    long = replace(whole, items=steps, configured=replace(whole.configured, epochs=55))
    unseen = replace(TRIED, training=long, between_epochs=None)
    said = "your training as configured (what stands between its epochs not counted) about 14 min"
    assert said in last(unseen)
    assert "not counted" not in last(replace(unseen, between_epochs=TRIED.between_epochs))
    once = replace(long, configured=replace(whole.configured, epochs=1))
    assert "not counted" not in last(replace(unseen, training=once))
    assert last(ONE_KEPT) == "Apply this change: 2.94× (2.88 to 3.01), 232 → 682 samples/s"


def test_where_tokens_are_known_the_real_ones_are_told() -> None:
    assert ONE_KEPT.loop is not None
    with_tokens = replace(ONE_KEPT.loop, tokens=4000.0, real_tokens=1000.0)
    assert ONE_KEPT.stack is not None
    before = f"{1000 / ONE_KEPT.stack.before_step_s:,.0f}"
    said = last(replace(ONE_KEPT, loop=with_tokens))
    assert "2.94× (2.88 to 3.01), " in said
    assert said.endswith("real tokens/s")
    assert before[:3] in said
    assert "samples" not in said


def test_without_a_batch_size_the_step_is_told() -> None:
    unknown = replace(
        THREE_KEPT, before_samples_per_s=None, after_samples_per_s=None, before_epoch_s=None
    )
    assert last(replace(WITHOUT_LEDGER, stack=unknown)).endswith(
        "(3.3 to 3.5), a step 151 ms → 44.4 ms"
    )


def test_kept_fixes_that_were_not_stacked_promise_no_more_than_was_measured() -> None:
    assert last(TRIALS_INTERRUPTED) == "Apply this change: 2.94× (2.88 to 3.01)"
    two = replace(TRIALS_INTERRUPTED, trials=(KEPT_CACHE, KEPT_MAP))
    assert last(two) == (
        "Apply these 2 changes: tf_map_parallel alone gives 2.94× (2.88 to 3.01), "
        "all of them together were not measured"
    )


def test_where_nothing_was_kept_the_last_line_says_so_plainly() -> None:
    assert last(NOTHING_KEPT) == "No change is worth making: nothing that was tried made it faster."
    assert last(HEALTHY_TRIED).startswith("Nothing to change: nothing that was tried made it")


def test_what_holds_a_script_up_is_not_waved_away_where_no_edit_helps() -> None:
    """Half of a step in the user's own average of the weights: no edit, but an answer."""
    host = replace(NOTHING_KEPT.verdict, bottleneck="host", healthy=False)
    found = replace(NOTHING_KEPT, verdict=host, findings=())
    assert "No repair that trainperf knows stands out of the noise" in text(found)
    assert last(found) == (
        "No edit that was tried made it faster; what holds it up is said at the top."
    )


def test_advice_of_one_process_that_was_not_tried_is_not_called_worthless() -> None:
    advice = replace(NOTHING_KEPT.findings[0], id="torch_item_work", rewritable=False)
    left = replace(KEPT_MAP, fix=advice.id, outcome=Outcome.NOT_TRIED, kept=False, speedup=None)
    found = replace(
        NOTHING_KEPT,
        findings=(advice, *NOTHING_KEPT.findings),
        trials=(*NOTHING_KEPT.trials, left),
    )
    assert last(found) == (
        "None of the edits tried is worth making. The advice above was not tried. "
        "1 change could not be tried."
    )


@pytest.mark.parametrize(
    ("outcomes", "told"),
    [
        ([Outcome.FAILED], "No change is worth making: what was tried failed."),
        ([Outcome.LOSSES_DIFFER], "No change is worth making: what was tried changed its losses."),
        (
            [Outcome.SLOWER, Outcome.FAILED],
            "No change is worth making: what was tried made it no faster or failed.",
        ),
        (
            [Outcome.SLOWER, Outcome.NOT_TRIED],
            (
                "No change that was tried is worth making: nothing made it faster. "
                "1 change could not be tried."
            ),
        ),
    ],
)
def test_why_nothing_was_kept_is_told_as_it_was(outcomes: list[Outcome], told: str) -> None:
    trials = tuple(
        replace(KEPT_MAP, outcome=outcome, kept=False, speedup=None) for outcome in outcomes
    )
    told_last = last(replace(NOTHING_KEPT, trials=trials))
    assert told_last == told


def test_figures_that_were_not_measured_are_called_upper_bounds() -> None:
    bounds = "The figures above are upper bounds, not measured: "
    assert last(INPUT_BOUND) == f"{bounds}no change was tried."
    assert last(NONE_POSSIBLE) == f"{bounds}no edit could be written for any of them."
    assert last(OUT_OF_BUDGET).startswith(f"{bounds}the script needs 94 s to its first step")


def test_a_healthy_script_ends_in_good_words() -> None:
    assert last(HEALTHY) == (
        "Nothing to change: trainperf knows nothing that would make it faster."
    )


def test_a_run_that_ended_early_is_not_called_well() -> None:
    early = replace(HEALTHY, ending=Ending.FAILED)
    assert "Nothing to change" not in last(early)


def test_a_failed_run_promises_nothing() -> None:
    assert last(FAILED) == "Diagnosed in 3.90 s."


def test_the_stack_has_each_alone_all_together_and_what_they_do_to_each_other() -> None:
    told = of(TRIED, TOGETHER)
    assert "tf_cache alone 1.92× (1.88 to 1.97) 78.6 ms" in told
    assert "all 3 together 3.4× (3.3 to 3.5) 44.4 ms" in told
    assert "the parts would multiply to 6.1×: they share a part of the gain." in told
    assert "both together" in of(ALL_OUTCOMES, TOGETHER)


def test_fixes_that_help_each_other_or_leave_each_other_alone_are_told_apart() -> None:
    def told(interaction: float) -> str:
        return of(replace(TRIED, stack=replace(THREE_KEPT, interaction=interaction)), TOGETHER)

    assert "one makes room for the other" in told(1.2)
    assert "each gives its own gain" in told(1.01)


def test_a_single_fix_is_no_stack() -> None:
    assert TOGETHER not in text(ONE_KEPT)


def test_the_environment_of_a_patch_can_be_pasted() -> None:
    assert (
        "\nPart of the changes: set before the script starts\n"
        "  export TF_GPU_THREAD_MODE=gpu_private\n  export TF_GPU_THREAD_COUNT=2\n"
    ) in text(TRIED)
    assert "Part of the changes" not in text(ONE_KEPT)


def test_a_change_of_the_command_alone_is_said_as_the_command_to_run() -> None:
    patch = Patch("", ("torch_autocast",), arguments=("--bf16", "True"))
    made = replace(ONE_KEPT, command=("python", "a b.py", "--x"), patch=patch)
    assert "\nThe change: run the script as\n  python 'a b.py' --x --bf16 True\n" in text(made)
    beside = replace(made, patch=replace(patch, diff=ONE_KEPT.patch.diff))
    assert "\nPart of the changes: run the script as\n" in text(beside)
    assert "run the script as" not in text(ONE_KEPT)


def test_the_edits_of_a_patch_are_counted_and_said_to_be_measured_or_not() -> None:
    assert "make this change in your files (2 edits, not measured)" in text(TWO_GPUS, saved="run")
    assert "make these changes in your files (2 edits)" in text(TRIED, saved="run")


def test_a_rejected_fix_is_not_the_one_to_read_about() -> None:
    rejected_first = replace(ONE_KEPT, findings=ONE_KEPT.findings[::-1])
    assert "trainperf explain tf_cache" in text(rejected_first)


def test_the_tools_own_cost_is_told() -> None:
    hooks = "its hooks took 24.0 µs of each step (<0.1 %)."
    assert f"trainperf: 21.2 s observing, 48.3 s trying; {hooks}" in text(TRIED, 100)
    unknown = replace(TRIED, overhead=Overhead(None, None, 21.2, 0.0))
    assert "\ntrainperf: 21.2 s observing.\n" in text(unknown)


def test_a_verdict_that_leaves_it_open_is_not_followed_by_none_of_the_causes() -> None:
    open_ = Verdict("none", "Not examined: …", 0.95, grade="not examined")
    bare = replace(INPUT_BOUND, findings=(), practices=(), patch=None, verdict=open_)
    assert "None of the causes" not in text(bare)
    assert "None of the causes" in text(replace(bare, verdict=replace(open_, grade="settled")))

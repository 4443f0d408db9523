"""What trials came to: at the findings, in their own table, and as another experiment."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from markupsafe import escape

from reporters.rendering import FINDINGS, TRIALS, coloured, of, part, text
from reporters.samples import (
    ALL_OUTCOMES,
    INPUT_BOUND,
    INTERRUPTED,
    KEPT,
    NOTHING_KEPT,
    ONE_KEPT,
    OTHER_EXPERIMENTS,
    SEVERAL_WAYS,
    TRIED,
    WHOLE_RUNS,
    over,
    trial,
)
from trainperf.model import Diagnosis, Item, Outcome, PhaseUse, Training, Trial
from trainperf.report.level import failing
from trainperf.report.sections.experiment import HEADING
from trainperf.report.sections.training import HEADING as TRAINING
from trainperf.report.sections.trials import ALONE, BEATEN, GROUPS
from trainperf.reporters import html, markdown
from trainperf.reporters.json import render
from trainperf.trial.queue import ALONE as SHORT

# -------------------------------------------------------------------------- the findings


def test_a_kept_finding_has_the_measurement_and_what_was_predicted() -> None:
    told = of(TRIED, FINDINGS)
    assert "3.2× as fast, measured (2.8 to 3.5); predicted at most 4.5×" in told
    assert "too low" not in told
    assert "predicted at most 1.57×, which was too low" in of(ONE_KEPT, FINDINGS)
    untold = replace(TRIED, findings=(replace(TRIED.findings[0], bound=None),))
    nothing = replace(untold, trials=(replace(KEPT, bound=None),))
    assert "nothing was predicted" in of(nothing, FINDINGS)


def test_what_was_tried_and_rejected_is_no_advice() -> None:
    report = text(NOTHING_KEPT, 100)
    (finding,) = [one for one in NOTHING_KEPT.findings if one.id == "tf_generator"]
    assert FINDINGS not in report
    assert finding.advice not in report
    rejected = part(report, "Tried, and not worth changing")
    assert f"- {finding.title} · generator.py:57" in rejected
    assert "Slower: 0.83× (0.77 to 0.89), predicted at most 23×." in rejected


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (Outcome.REDUNDANT, "Adds nothing to the others: 3.2× alone (2.8 to 3.5), predicted"),
        (Outcome.LOSSES_DIFFER, "Losses differ: because; 3.2× (2.8 to 3.5), predicted"),
        (Outcome.NO_EFFECT, "No measurable effect: 3.2× (2.8 to 3.5), predicted"),
        (Outcome.FAILED, "Failed: because"),
    ],
)
def test_what_became_of_a_rejected_finding_has_its_reason(outcome: Outcome, told: str) -> None:
    rejected = replace(KEPT, outcome=outcome, kept=False, reason="because", note="")
    report = of(replace(TRIED, trials=(rejected,)), "Tried, and not worth changing")
    assert told in report


def test_a_finding_that_was_not_tried_keeps_its_advice_its_bound_and_the_reason() -> None:
    report = part(text(INTERRUPTED, 100), FINDINGS)
    assert "not tried: interrupted" in report
    assert TRIED.findings[1].advice in report
    bound = "at most 4.0× as fast"
    assert f"\x1b[1;32m{bound}" in coloured(INPUT_BOUND)
    untried = replace(INPUT_BOUND, trials=INTERRUPTED.trials[1:])
    assert f"\x1b[1m{bound}" in coloured(replace(untried, trials=(*TRIED.trials[1:2],)))


# ----------------------------------------------------------------------------- the table


def test_every_outcome_has_its_group_in_order() -> None:
    assert set(GROUPS) == set(Outcome)
    report = text(ALL_OUTCOMES)
    places = [report.index(f"\n  {heading}\n") for heading, _ in GROUPS.values()]
    assert places == sorted(places)


def test_what_was_only_measured_alone_is_not_called_untried() -> None:
    report = text(ONE_KEPT, 100)
    assert "1.97× as fast alone, measured (1.81 to 2.13)" in report
    assert f"\n  {ALONE}\n  keras_jit_compile" in report
    assert "\n  not tried\n" not in report
    assert f"\n  {ALONE}\n" not in text(TRIED)


def test_what_was_measured_on_top_of_another_is_not_called_its_own_gain() -> None:
    trials = [replace(one, on_top=("tf_cache",)) for one in ONE_KEPT.trials if one.kept]
    report = text(replace(ONE_KEPT, trials=(*trials,)), 100)
    assert "as fast on top of tf_cache, measured" in " ".join(report.split())
    assert "measured on top of tf_cache" in report.split("Tried on the script itself")[1]


def test_a_change_of_the_experiment_on_top_of_another_is_beside_that() -> None:
    (change, *_) = OTHER_EXPERIMENTS.experiment_changes
    ways = tuple(replace(way, on_top=("tf_cache",)) for way in change.ways)
    shown = replace(OTHER_EXPERIMENTS, experiment_changes=(replace(change, ways=ways),))
    report = text(shown, 100).split("These would change the experiment")[1]
    assert "    with tf_cache" in report
    assert "    as it is" not in report
    assert "or with what was kept before; in no patch" in " ".join(report.split())


def test_a_way_that_another_beat_is_no_reason_to_reject_the_fix() -> None:
    kept = trial(WHOLE_RUNS, Outcome.KEPT)
    beaten = replace(kept, outcome=Outcome.REDUNDANT, kept=False, variant="workers=8")
    report = text(replace(WHOLE_RUNS, trials=(*WHOLE_RUNS.trials, beaten)), 100)
    assert report.split(f"  {BEATEN}\n")[1].startswith("  torch_workers (workers=8)")
    assert "as fast with workers=2, measured" in report
    assert "adds nothing to the others" in text(SEVERAL_WAYS)


def test_a_wide_table_has_every_figure_and_a_narrow_one_keeps_the_names() -> None:
    wide, narrow = text(TRIED, 100), text(TRIED, 60)
    assert re.search(r"fix +at most +measured +pairs +steps\n", wide)
    assert re.search(r"tf_map_parallel +2\.0× +1\.70× \(1\.50 to 1\.82\) +7 +100\n", wide)
    assert re.search(r"  tf_map_parallel +2\.0×  1\.70× \(1\.50 to 1\.82\)\n", narrow)
    assert "    losses within 0.61 % (137 compared)" in narrow
    untried = trial(TRIED, Outcome.NOT_TRIED)
    assert f"{untried.fix} 1.08× {untried.reason}"[:40] in of(TRIED)


def test_what_the_loop_has_decided_says_so_in_every_report() -> None:
    report = text(OTHER_EXPERIMENTS, 100)
    assert "    in the loop\n" in report
    assert "keras_jit_compile 0.54× in the loop" in text(OTHER_EXPERIMENTS, full=False)
    assert 'What stands "in the loop" was measured there' in of(OTHER_EXPERIMENTS)
    assert "in the loop" in markdown.render(OTHER_EXPERIMENTS)
    assert '<td colspan="5">in the loop</td>' in html.render(OTHER_EXPERIMENTS)
    assert "in the loop" not in text(TRIED)


def test_a_one_off_cost_has_its_break_even() -> None:
    assert "costs 2.31 s once, earned back after 96 steps" in of(TRIED)
    for cost in (None, 0.0):
        free = replace(KEPT, one_off_s=cost)
        assert "once" not in of(replace(TRIED, trials=(free,))).replace("fresh", "")


def test_how_it_was_measured_stands_above() -> None:
    told = of(TRIED)
    assert told.startswith(
        "Side by side: the script and each change took turns in slices of a few steps, 6 to 19 "
        "pairs each (17 to 212 steps), all from the seed 20261121."
    )
    assert (
        "Control (the script against itself): 0.99× (0.90 to 1.09), so gains below 4.8 % could be "
        "noise. Its losses were the same from run to run."
    ) in told
    assert "how much could be noise is not known" in of(INTERRUPTED)
    assert "Interrupted." in of(INTERRUPTED)


def test_how_it_was_measured_otherwise_says_why() -> None:
    assert TRIED.trying is not None
    assert TRIED.control is not None
    fewer = replace(TRIED.trying, two_legs="memory is short", growth=True)
    told = of(replace(TRIED, trying=fewer))
    assert "two at a time, as memory is short, 6 to 19 pairs each" in told
    assert "(TF_FORCE_GPU_ALLOW_GROWTH=true), in every process" in told
    alone = replace(TRIED.trying, mode="one after another", mode_reason="memory is short")
    told = of(replace(TRIED, trying=alone))
    assert told.startswith("One after another: fresh processes")
    assert "did not run side by side because memory is short" in told
    band = replace(TRIED.control, reproducible=False, loss_band=0.008)
    assert "by up to 0.8 %: changes were judged by that band." in of(replace(TRIED, control=band))
    unseen = replace(TRIED.control, reproducible=None, loss_band=None)
    assert "No losses were seen" in of(replace(TRIED, control=unseen))


@pytest.mark.parametrize("failed", [False, True])
def test_who_ran_out_of_memory_beside_others_has_it_said(failed: bool) -> None:
    one = replace(KEPT, note=SHORT, speedup=None)
    if failed:
        one = replace(one, outcome=Outcome.FAILED, reason="fails: OutOfMemoryError: CUDA out")
    diagnosis = replace(TRIED, trials=(one,))
    assert SHORT in of(diagnosis)
    assert escape(SHORT) in html.render(diagnosis)
    assert SHORT in markdown.render(diagnosis)


def busy(others: float, began: float) -> Diagnosis:
    """All outcomes on a machine of which others took so many cores."""
    use = (PhaseUse("real", 30, cpu_cores=1.0, others_cores=others),)
    assert ALL_OUTCOMES.trying is not None
    trying = replace(ALL_OUTCOMES.trying, neighbours_cores=began)
    return over(ALL_OUTCOMES, use=use, trying=trying)


@pytest.mark.parametrize("full", [True, False])
def test_a_busy_machine_is_named_where_changes_had_no_measurable_effect(full: bool) -> None:
    def told(diagnosis: Diagnosis) -> str:
        return part(text(diagnosis, 100, full=full), TRIALS)

    words = "what had no measurable effect may have one"
    kept = tuple(one for one in ALL_OUTCOMES.trials if one.outcome is not Outcome.NO_EFFECT)
    assert words not in told(busy(0.1, 0.1))
    assert words not in told(replace(busy(1.0, 0.0), trials=kept))
    took = "Neighbours took about 1.0 of 2 cores"
    assert f"{took} while the steps were timed: {words}" in told(busy(1.0, 0.0))
    assert f"{took} when the trials began: {words}" in told(busy(0.1, 1.0))


# -------------------------------------------------------------- together, and of the whole


def test_the_stack_has_each_alone_all_together_and_what_they_do_to_each_other() -> None:
    heading = "The kept changes together"
    told = of(TRIED, heading)
    assert "tf_map_parallel alone 1.70× (1.50 to 1.82) 20.4 ms" in told
    assert "both together 3.2× (2.8 to 3.5) 10.8 ms" in told
    assert "the parts would multiply to 5.4×: they share a part of the gain." in told
    assert TRIED.stack is not None
    for interaction, words in ((1.2, "one makes room for the other"), (1.01, "gives its own gain")):
        stack = replace(TRIED.stack, interaction=interaction)
        assert words in of(replace(TRIED, stack=stack), heading)
    assert heading not in text(ONE_KEPT)
    apart = replace(TRIED, stack=replace(TRIED.stack, together=False))
    assert "Not measured together: the product of these" in " ".join(text(apart, 100).split())


def test_a_repair_that_was_timed_in_place_says_of_what_its_speed_up_is() -> None:
    tried = Trial("tf_cache", Outcome.KEPT, "", 9.4, 9.2, 9.6, 12, kept=True, basis="calls")
    told = text(replace(TRIED, trials=(tried,), stack=None), 100)
    assert "measured (9.2 to 9.6)" in told
    assert "12 pairs each" not in told
    assert "(0 steps)" not in told
    assert "the whole script in 1 run each, measured (1.68 to 1.68)" in of(WHOLE_RUNS, FINDINGS)


def training(whole: Training | None) -> str:
    return of(replace(TRIED, training=whole), TRAINING)


def test_the_whole_training_stands_with_its_lines() -> None:
    whole = TRIED.training
    assert whole is not None
    told = training(whole)
    assert "the script as it is 27.8 s" in told
    assert "with the changes 15.4 s (14.9 s to 16.2 s)" in told
    assert "training steps 599 19.3 s 6.01 s" in told
    assert "one garbage collection" in told
    assert "No plain runs of the script confirm it: whole runs would take 99 s" in told
    without_end = tuple(one for one in whole.items if one.part != "end")
    assert "one garbage collection" not in training(replace(whole, items=without_end))
    assert "as it is, changed: 15.9 s, 9.70 s." in of(WHOLE_RUNS, TRAINING)


def test_what_is_not_known_of_the_whole_training_has_its_reason() -> None:
    whole = TRIED.training
    assert whole is not None
    why = "how often `while True` turns is not known"
    assert training(Training(None, reason=why)) == f"How long it takes is not known: {why}."
    items: tuple[Item, ...] = tuple(replace(one, after_s=None) for one in whole.items)
    told = training(
        replace(whole, seconds_after=None, low=None, high=None, items=items, reason=why)
    )
    assert f"{why}." in told
    assert "with the changes" not in told


# --------------------------------------------- what would make it another experiment


@pytest.mark.parametrize("full", [True, False])
def test_what_changes_the_experiment_stands_apart_with_its_rates(full: bool) -> None:
    report = text(ONE_KEPT, 100, full=full, saved="RUN")
    told = part(report, HEADING)
    assert "samples/s as fast as it is 520 changed 1,850 (1,610 to 2,130) 3.6× (3.1 to 4.1)" in told
    assert "batch=64 793 (737 to 853) 1.52× (1.42 to 1.64)" in told
    assert "half as many updates" in told
    assert "trainperf fix RUN --only batch_size" in told
    for change in ONE_KEPT.experiment_changes:
        assert change.finding.title not in part(report, FINDINGS)
    assert ("tf_padding_buckets" in part(report, TRIALS)) is full
    assert HEADING not in text(TRIED, full=full)


def test_every_format_tells_what_changes_the_experiment() -> None:
    first, *_ = json.loads(render(ONE_KEPT))["experiment_changes"]
    assert first["unit"] == "samples"
    assert first["ways"][0]["low"] < first["ways"][0]["speedup"]
    assert first["patch"]["findings"] == ["tf_padding_buckets"]
    page = markdown.render(ONE_KEPT)
    before, apart = page.split(f"### {HEADING}")
    assert "| changed | 1,850 (1,610 to 2,130) | 3.6× (3.1 to 4.1) |" in apart
    assert "\n**Most of each sequence is padding**\n" in apart
    assert "Most of each sequence is padding" not in before
    assert HEADING not in markdown.render(TRIED)


def test_a_way_that_could_not_be_run_is_named_and_other_losses_are_told() -> None:
    batch = next(one for one in ONE_KEPT.trials if one.fix == "batch_size")
    short = replace(batch, outcome=Outcome.FAILED, reason="out of memory", variant="batch=256")
    diagnosis = replace(ONE_KEPT, trials=(*ONE_KEPT.trials, short))
    for report in (of(diagnosis, HEADING), markdown.render(diagnosis), html.render(diagnosis)):
        assert "batch=256 failed: out of memory." in report
    (change, *_) = ONE_KEPT.experiment_changes
    steps = replace(change, unit="steps", why="losses part by 7.3 %", losses_differ=True)
    told = of(replace(ONE_KEPT, experiment_changes=(steps,)), HEADING)
    assert "steps/s as fast as it is 520 " in told
    assert "losses part by 7.3 %" in told


def test_it_fails_no_check_that_asks_for_a_speed_up() -> None:
    found = replace(OTHER_EXPERIMENTS, findings=(OTHER_EXPERIMENTS.experiment_changes[2].finding,))
    assert failing(found, 1.2) == set()
    assert failing(found, "any") == {"batch_size"}
    before = replace(found, trials=(), experiment_changes=())
    assert failing(before, 1.2) == {"batch_size"}

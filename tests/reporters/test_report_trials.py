"""The terminal's report of the trials: at the findings, and in their own table."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from markupsafe import escape

from reporters.rendering import FINDINGS, TRIALS, coloured, of, part, text
from reporters.samples_observed import INPUT_BOUND
from reporters.samples_tried import (
    ALL_OUTCOMES,
    CONTROL,
    KEPT_MAP,
    MIXED,
    NOT_REPRODUCIBLE,
    ONE_AFTER_ANOTHER,
    ONE_KEPT,
    OUT_OF_BUDGET,
    SHUFFLE,
    STEPS_PER_CALL,
    TRIALS_INTERRUPTED,
    TRIED,
)
from trainperf.model import Diagnosis, Outcome, PhaseUse, Trial
from trainperf.report.sections.trials import ALONE, GROUPS
from trainperf.reporters import html, markdown
from trainperf.trial.queue import ALONE as SHORT

SLOWER_THREADS = next(one for one in ALL_OUTCOMES.trials if one.outcome is Outcome.SLOWER)


def test_a_kept_finding_has_the_measurement_and_what_was_predicted() -> None:
    told = of(TRIED, FINDINGS)
    assert "2.94× as fast, measured (2.88 to 3.01); predicted at most 3.2×" in told
    assert "predicted at most 3.2×, which" not in told


def test_a_prediction_that_was_too_low_is_said_to_be() -> None:
    assert "(1.88 to 1.97); predicted at most 1.80×, which was too low" in of(TRIED, FINDINGS)


def test_a_measurement_without_a_prediction_says_so() -> None:
    finding = replace(TRIED.findings[0], bound=None)
    diagnosis = replace(TRIED, findings=(finding,), trials=(replace(KEPT_MAP, bound=None),))
    assert "measured (2.88 to 3.01); nothing was predicted" in of(diagnosis, FINDINGS)


def test_what_was_tried_and_rejected_is_no_advice() -> None:
    report = text(replace(ALL_OUTCOMES, experiment_changes=()), 100)
    advice, rejected = part(report, FINDINGS), part(report, "Tried, and not worth changing")
    for finding in (SHUFFLE, MIXED, STEPS_PER_CALL):
        assert finding.snippet not in report
        assert finding.advice not in report
        assert finding.title not in advice
        assert f"- {finding.title} · train.py:" in rejected


@pytest.mark.parametrize(
    "told",
    [
        "Adds nothing to the others: 1.38× alone (1.35 to 1.41), predicted at most 1.44×; on top",
        "Losses differ: by 7.3 % from step 12 on; 2 % are allowed; 1.62× (1.58 to 1.66), predicted",
        "No measurable effect: 1.00× (0.99 to 1.01), predicted at most 1.01×; the interval does",
        "Slower: 0.93× (0.91 to 0.95), predicted at most 1.04×.",
        "Failed: InvalidArgumentError: Detected unsupported operations",
    ],
)
def test_what_became_of_a_rejected_finding_stands_there_with_its_reason(told: str) -> None:
    rejected = replace(ALL_OUTCOMES, experiment_changes=())
    assert told in of(rejected, "Tried, and not worth changing")


def test_a_finding_that_was_not_tried_keeps_its_advice_its_bound_and_the_reason() -> None:
    told = of(ONE_KEPT, FINDINGS)
    assert "at most 3.1× as fast (as if reading" in told
    assert "not tried: no edit could be written for it" in told
    assert ONE_KEPT.findings[1].advice in told


def test_green_is_for_what_was_measured_once_something_was() -> None:
    bound = "at most 3.1× as fast"
    assert f"\x1b[1;32m{bound}" in coloured(INPUT_BOUND)
    assert f"\x1b[1m{bound}" in coloured(ONE_KEPT)


def test_every_outcome_has_its_group_in_order() -> None:
    assert set(GROUPS) == set(Outcome)
    report = text(ALL_OUTCOMES)
    places = [report.index(f"\n  {heading}\n") for heading, _ in GROUPS.values()]
    assert places == sorted(places)


def test_what_was_only_measured_alone_is_not_called_untried() -> None:
    (kept,) = [one for one in ONE_KEPT.trials if one.kept]
    reason = f"not measured on top of {kept.fix}: out of budget"
    alone = replace(
        kept,
        fix=ONE_KEPT.findings[1].id,
        kept=False,
        outcome=Outcome.NOT_TRIED,
        reason=reason,
        speedup=1.07,
        low=1.04,
        high=1.1,
    )
    report = text(replace(ONE_KEPT, trials=(kept, alone)), 100)
    assert "1.07× as fast alone, measured (1.04 to 1.10)" in report
    assert f"\n  {ALONE}\n  {alone.fix}" in report
    assert reason in report[report.index(ALONE) :]
    assert "\n  not tried\n" not in report


def test_a_wide_table_has_every_figure() -> None:
    report = text(ALL_OUTCOMES, 100)
    assert re.search(r"fix +at most +measured +pairs +steps +losses\n", report)
    assert re.search(
        r"keras_mixed_precision +1\.80× +1\.62× \(1\.58 to 1\.66\) +12 +60 +part by", report
    )


def test_a_narrow_table_keeps_the_names_and_moves_the_losses_beneath() -> None:
    report = text(ALL_OUTCOMES, 60)
    assert re.search(r"  keras_steps_per_execution    1\.01×  1\.00× \(0\.99 to 1\.01\)\n", report)
    assert "    losses: part by 7.3 % at step 12\n" in report
    assert "12 pairs each (48 to 192 steps)" in part(report, TRIALS)


def test_what_was_not_tried_has_its_reason_in_place_of_figures() -> None:
    assert re.search(r"\n  tf_interleave_parallel +it changes the experiment\n", text(ALL_OUTCOMES))


def test_what_the_loop_has_decided_says_so_in_every_report() -> None:
    slower = replace(
        SLOWER_THREADS, note="in the loop", basis="in the loop", pairs=6, steps=288, parity=""
    )
    others = tuple(one for one in ALL_OUTCOMES.trials if one is not SLOWER_THREADS)
    decided = replace(ALL_OUTCOMES, trials=(*others, slower))
    row = r"tf_gpu_thread_mode +1\.04× +0\.93× \(0\.91 to 0\.95\) +6\b.*\n? *in the loop"
    assert re.search(row, part(text(decided, 100), TRIALS))
    assert "tf_gpu_thread_mode 0.93× in the loop" in text(decided, full=False)
    assert 'What stands "in the loop" was measured there' in of(decided, TRIALS)
    assert "0.93× (0.91 to 0.95) in the loop" in markdown.render(decided)
    assert '<td colspan="5">in the loop</td>' in html.render(decided)
    assert "in the loop" not in text(ALL_OUTCOMES)


def test_a_one_off_cost_has_its_break_even() -> None:
    assert "costs 3.12 s once, earned back after 48 steps" in of(TRIED)
    for trial in (replace(KEPT_MAP, one_off_s=None), replace(KEPT_MAP, one_off_s=0.0)):
        assert "once" not in of(replace(TRIED, trials=(trial,)))


def test_how_it_was_measured_stands_above() -> None:
    told = of(TRIED)
    assert told.startswith(
        "Side by side: the script and each change took turns in slices of a few steps, "
        "12 pairs each (48 to 64 steps), all from the seed 1234."
    )
    assert (
        "Control (the script against itself): 1.00× (0.99 to 1.01), so gains below 0.8 % could be "
        "noise. Its losses were the same from run to run."
    ) in told


def test_two_at_a_time_says_why_and_growth_is_told() -> None:
    why = "the script takes 30.0 GiB of the memory of GPU 0, and 79.0 GiB is free"
    how = replace(TRIED.trying, two_legs=why, growth=True)
    told = of(replace(TRIED, trying=how))
    assert f"turns in slices of a few steps, two at a time, as {why}, 12 pairs each" in told
    assert "not all there is (TF_FORCE_GPU_ALLOW_GROWTH=true), in every leg." in told
    assert "TF_FORCE" not in of(TRIED)


@pytest.mark.parametrize("speedup", [1.5, None])
def test_who_ran_out_of_memory_beside_others_has_it_said(speedup) -> None:
    trial = replace(KEPT_MAP, note=SHORT, speedup=speedup)
    failed = replace(trial, outcome=Outcome.FAILED, reason="fails: OutOfMemoryError: CUDA out")
    for one in (trial, failed):
        diagnosis = replace(TRIED, trials=(one,))
        assert SHORT in " ".join(of(diagnosis).split())
        assert escape(SHORT) in html.render(diagnosis)
        assert SHORT in markdown.render(diagnosis)


def test_one_after_another_says_why() -> None:
    told = of(ONE_AFTER_ANOTHER)
    assert told.startswith("One after another: fresh processes")
    assert "did not run side by side because two of them need 29.1 GiB of memory" in told


def test_a_script_that_is_not_reproducible_is_judged_by_its_band() -> None:
    band = "losses differ from run to run by up to 0.8 %: changes were judged by that band."
    assert band in of(NOT_REPRODUCIBLE)


def test_losses_that_were_not_seen_are_not_called_equal() -> None:
    told = of(replace(TRIED, control=replace(CONTROL, reproducible=None, loss_band=None)))
    assert "No losses were seen, so they could not be compared." in told
    assert "the same from run to run" not in told


def test_without_a_control_the_noise_is_not_known() -> None:
    assert "how much could be noise is not known" in of(TRIALS_INTERRUPTED)
    assert "Interrupted." in of(TRIALS_INTERRUPTED)


def test_a_budget_that_would_do_can_be_pasted() -> None:
    for diagnosis, minutes in ((ALL_OUTCOMES, 5), (OUT_OF_BUDGET, 7)):
        assert f"With `--budget {minutes}min` there is time" in of(diagnosis)
        command = f"trainperf diagnose --budget {minutes}min train.py --epochs 50"
        assert f"\n  {command}\n" in text(diagnosis)


@pytest.mark.parametrize(
    ("command", "typed"),
    [
        (("/usr/bin/python3", "-m", "flowers.train"), "-m flowers.train"),
        (("torchrun", "train.py"), "-- torchrun train.py"),
        (("python", "-O", "train.py"), "-- python -O train.py"),
        (("python", "my train.py"), "'my train.py'"),
    ],
)
def test_the_command_to_paste_is_the_one_that_was_run(command: tuple[str, ...], typed: str) -> None:
    report = text(replace(OUT_OF_BUDGET, command=command))
    assert f"trainperf diagnose --budget 7min {typed}\n" in report


def test_a_trial_of_what_is_no_finding_is_in_the_table_all_the_same() -> None:
    trial = Trial("tf_options", Outcome.FAILED, "killed by signal 9 (out of memory)")
    told = of(replace(TRIED, trials=(trial,)))
    assert "tried, failed tf_options killed by signal 9 (out of memory)" in told


def busy(others: float, began: float | None = None) -> Diagnosis:
    """The diagnosis with all outcomes, of a machine of which others took so many cores."""
    use = (PhaseUse("real", 30, cpu_cores=2.0, others_cores=others),)
    trying = replace(ALL_OUTCOMES.trying, neighbours_cores=began)
    return replace(ALL_OUTCOMES, utilization=use, trying=trying)


def without_effect(diagnosis: Diagnosis, *, any_left: bool) -> Diagnosis:
    kept = [one for one in diagnosis.trials if any_left or one.outcome is not Outcome.NO_EFFECT]
    return replace(diagnosis, trials=tuple(kept))


def said(diagnosis: Diagnosis, *, short: bool) -> str:
    return of(diagnosis) if not short else part(text(diagnosis, 100, full=False), TRIALS)


MAY_HAVE = "what had no measurable effect may have one"


@pytest.mark.parametrize("short", [True, False])
def test_on_a_quiet_machine_nothing_is_said_of_neighbours(short: bool) -> None:
    assert MAY_HAVE not in said(busy(0.1, began=0.1), short=short)
    assert MAY_HAVE not in said(without_effect(busy(3.0), any_left=False), short=short)


@pytest.mark.parametrize("short", [True, False])
def test_a_busy_machine_is_named_where_changes_had_no_measurable_effect(short: bool) -> None:
    told = said(busy(3.0), short=short)
    assert f"Neighbours took about 3.0 of 8 cores while the steps were timed: {MAY_HAVE}" in told
    began = said(busy(0.1, began=2.4), short=short)
    assert f"Neighbours took about 2.4 of 8 cores when the trials began: {MAY_HAVE}" in began

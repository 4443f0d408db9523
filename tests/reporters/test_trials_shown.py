"""What trying the fixes came to, in every report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reporters.rendering import FINDINGS, TRIALS, coloured, of, part, text
from reporters.samples import (
    ALL_OUTCOMES,
    CACHE,
    INPUT_BOUND,
    INTERRUPTED,
    KEPT,
    NOTHING_KEPT,
    ONE_KEPT,
    OTHER_EXPERIMENTS,
    TRIED,
    WHOLE_RUNS,
    trial,
)
from trainperf.model import Diagnosis, Outcome, Training, Trial, Trials
from trainperf.model.words import bound
from trainperf.report.level import failing
from trainperf.report.sections.findings import EXPERIMENT as HEADING
from trainperf.report.sections.training import HEADING as TRAINING
from trainperf.report.sections.trials import BEATEN, GROUPS, MAY_HAVE_ONE
from trainperf.trial.queue import ALONE as SHORT

# -------------------------------------------------------------------------- the findings


def test_a_kept_finding_has_the_measurement_and_what_was_predicted() -> None:
    unpriced = replace(TRIED, trials=tuple(replace(one, bound=None) for one in TRIED.trials))
    assert "predicted" not in of(unpriced, FINDINGS)
    assert "the whole script in 1 run each, measured" in of(WHOLE_RUNS, FINDINGS)


def test_what_was_tried_and_rejected_is_no_advice() -> None:
    (finding,) = [one for one in NOTHING_KEPT.findings if one.id == "tf_generator"]
    report = text(
        replace(NOTHING_KEPT, verdict=replace(NOTHING_KEPT.verdict, bottleneck="model")), 100
    )
    assert f"\n{FINDINGS}\n" not in report
    assert finding.advice not in report
    rejected = part(report, TRIALS)
    assert "Tried, slower: - tf_generator: 0.83× (0.77 to 0.89), at most 23× predicted" in rejected


def test_a_finding_that_was_not_tried_keeps_its_advice_its_bound_and_the_reason() -> None:
    report = part(text(INTERRUPTED, 100), FINDINGS)
    assert "not tried: interrupted" in report
    assert TRIED.findings[1].advice in report
    told = "at most 4.0× as fast"
    assert f"\x1b[1;32m{told}" in coloured(INPUT_BOUND)
    untried = replace(INPUT_BOUND, trials=(*TRIED.trials[1:2],))
    assert f"\x1b[1m{told}" in coloured(untried)


def test_a_finding_that_was_not_tried_has_one_figure() -> None:
    skipped = Trial(CACHE.id, Outcome.NOT_TRIED, "interrupted", bound=9.9)
    other = Trial("tf_interleave_parallel", Outcome.NOT_TRIED, "interrupted", bound=8.8)
    report = text(replace(INPUT_BOUND, trials=(skipped, other)), 100, full=True)
    assert f"{bound(CACHE.bound)} as fast" in report
    assert "at most 8.8× predicted" in report  # it has no advice
    assert "9.9×" not in report


# ----------------------------------------------------------------------------- the table


def test_every_outcome_has_its_group_in_order() -> None:
    assert set(GROUPS) >= set(Outcome)
    report = text(ALL_OUTCOMES)
    headings = [heading for came, (heading, _) in GROUPS.items() if isinstance(came, Outcome)]
    places = [report.index(f"\n  {heading.capitalize()}:\n") for heading in headings]
    assert places == sorted(places)


def test_what_was_measured_on_top_of_another_is_not_called_its_own_gain() -> None:
    trials = [replace(one, on_top=("tf_cache",)) for one in ONE_KEPT.trials if one.kept]
    report = text(replace(ONE_KEPT, trials=(*trials,)), 100)
    assert "as fast on top of tf_cache, measured" in " ".join(report.split())
    assert "measured on top of tf_cache" in report.split(TRIALS)[1]


def test_a_way_that_another_beat_is_no_reason_to_reject_the_fix() -> None:
    kept = trial(WHOLE_RUNS, Outcome.KEPT)
    beaten = replace(kept, outcome=Outcome.REDUNDANT, kept=False, variant="workers=8")
    report = text(replace(WHOLE_RUNS, trials=(*WHOLE_RUNS.trials, beaten)), 100)
    assert report.split(f"  {BEATEN.capitalize()}:\n")[1].startswith(
        "  - torch_workers (workers=8)"
    )
    assert "as fast with workers=2, measured" in report


def test_who_ran_out_of_memory_beside_others_has_it_said() -> None:
    kept = replace(KEPT, note=SHORT, speedup=None)
    failed = replace(kept, outcome=Outcome.FAILED, reason="fails: OutOfMemoryError: CUDA out")
    for told in (kept, failed):
        assert SHORT in of(replace(TRIED, trials=(told,)))


@pytest.mark.parametrize("full", [True, False])
def test_how_far_figures_can_be_trusted_stands_above_them(full: bool) -> None:
    def told(diagnosis: Diagnosis) -> str:
        return part(text(diagnosis, 100, full=full), TRIALS)

    against = (
        "The script against itself: 0.99× (0.90 to 1.09), so gains below 4.8 % could be noise."
    )
    assert against in told(TRIED)
    assert "how much could be noise is not known" in told(INTERRUPTED)

    def beside(cores: float, trials: tuple[Trial, ...]) -> str:
        trying = replace(ALL_OUTCOMES.trying or Trials("none"), neighbours_cores=cores)
        return told(replace(ALL_OUTCOMES, trials=trials, trying=trying))

    busy = f"Neighbours took about 1.0 of 2 cores when the trials began: {MAY_HAVE_ONE}."
    assert busy in beside(1.0, ALL_OUTCOMES.trials)
    assert MAY_HAVE_ONE not in beside(0.1, ALL_OUTCOMES.trials)
    without = tuple(one for one in ALL_OUTCOMES.trials if one.outcome is not Outcome.NO_EFFECT)
    assert MAY_HAVE_ONE not in beside(1.0, without)


# -------------------------------------------------------------- together, and of the whole


def test_the_whole_training_stands_with_its_lines() -> None:
    assert "without trainperf in it: 15.9 s, 9.70 s." in of(WHOLE_RUNS, TRAINING)
    why = "how often `while True` repeats is not known"
    unknown = replace(TRIED, training=Training(None, reason=why))
    assert of(unknown, TRAINING) == f"How long it takes is not known: {why}."


# --------------------------------------------- what would make it another experiment


def test_a_way_that_could_not_be_run_is_named_and_other_losses_are_told() -> None:
    batch = next(one for one in ONE_KEPT.trials if one.fix == "batch_size")
    short = replace(batch, outcome=Outcome.FAILED, reason="out of memory", variant="batch=256")
    diagnosis = replace(ONE_KEPT, trials=(*ONE_KEPT.trials, short))
    assert "batch_size (batch=256) failed: out of memory." in of(diagnosis, HEADING)
    (change, *_) = ONE_KEPT.experiment_changes
    steps = replace(change, unit="steps", why="losses part by 7.3 %", losses_differ=True)
    told = of(replace(ONE_KEPT, experiment_changes=(steps,)), HEADING)
    assert "520 → 1,850 steps/s" in told
    assert "losses part by 7.3 %" in told


def test_it_fails_no_check_that_asks_for_a_speed_up() -> None:
    found = replace(OTHER_EXPERIMENTS, findings=(OTHER_EXPERIMENTS.experiment_changes[2].finding,))
    assert failing(found, 1.2) == set()
    assert failing(found, "any") == {"batch_size"}
    before = replace(found, trials=(), experiment_changes=())
    assert failing(before, 1.2) == {"batch_size"}

"""The slices' contents where a fix saves between epochs. Pure."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from fixes.case_text import evidence_of
from trainperf.model import Equivalence, Run
from trainperf.recording.run import Epoch
from trainperf.trial.budget import Costs
from trainperf.trial.candidates import Candidate
from trainperf.trial.planning import (
    RANKS,
    SHORT_STEPS,
    choose_slices,
    in_order,
    short_epoch,
    slices_text,
)

EPOCH = Epoch(steps=20, seconds=0.5, pause_s=0.1)
TURN = Epoch(steps=30, seconds=2.0, written=True)
RUN = Run(("python",), ".", "train.py")
COSTS = Costs(start_s=5.0, step_s=0.01, epoch_s=0.2, cores=2.0, slots=10)


def candidate(name="persistent", epoch=EPOCH):
    return Candidate((name,), RUN, Equivalence.NUMERICS, 2.0, 0, epoch=epoch)


STEPS = candidate("steps", None)


def with_epochs(steps, restart_s, real=0.1, name="torch_small_kernels"):
    laid = {"times.real": real, "loop.epoch_steps": steps, "between_epochs.restart_s": restart_s}
    return evidence_of(name, laid)


LONG = with_epochs(1000, 0.2)


def choose(*candidates, of=LONG, left=120.0, ranks=1, costs=COSTS):
    chosen, skipped, needed_s = choose_slices(candidates, of, costs, left, 20.0, ranks)
    return SimpleNamespace(chosen=tuple(chosen), skipped=skipped, budget_needed_s=needed_s)


def held(found):
    return {one.name: one.holds for one in found.chosen}


def test_epochs_of_a_few_steps_are_compared_whole_whatever_is_tried():
    found = choose(STEPS, of=with_epochs(10, 0.05))
    assert held(found) == {"steps": Epoch(10, pytest.approx(1.05))}
    assert slices_text(found.chosen) == "whole epochs (10 steps each)"


@pytest.mark.parametrize(
    ("steps", "restart_s", "short"),
    [(SHORT_STEPS, 0.0, True), (100, 0.1, False), (100, 0.6, True), (5000, 30.0, True)],
)
def test_an_epoch_is_short_by_its_steps_or_by_what_opening_its_input_takes(steps, restart_s, short):
    assert (short_epoch(with_epochs(steps, restart_s)) is not None) == short


def test_epochs_of_tf_data_that_begin_by_filling_a_buffer_are_compared_whole():
    filled = with_epochs(36, 0.43, 0.0173, "slow_images")
    assert short_epoch(filled) == Epoch(36, pytest.approx(36 * 0.0173 + 0.43))
    assert slices_text(choose(STEPS, of=filled, left=60.0).chosen) == "whole epochs (36 steps each)"
    assert held(choose(STEPS, candidate(), of=filled)) == {"steps": EPOCH, "persistent": EPOCH}


def test_of_long_epochs_that_fill_a_buffer_only_what_changes_the_input_takes_whole_ones():
    """1,875 steps of 3 ms behind a shuffle of all items: no step of a compiled model shows it."""
    filled = with_epochs(1875, 2.0, 0.003, "slow_images")
    found = choose(STEPS, replace(candidate("cache", None), input=True), of=filled, left=400.0)
    assert held(found) == {"steps": None, "cache": short_epoch(filled)}
    assert slices_text(found.chosen) == "a few steps and whole epochs (1,875 steps each) for cache"


def test_an_epoch_that_is_too_long_is_named_with_the_budget_that_would_do():
    long = candidate(epoch=Epoch(2000, 40.0))
    found = choose(STEPS, long)
    assert found.chosen == (STEPS,)
    [skipped] = found.skipped
    assert "one takes 40.0 s" in skipped.reason
    assert f"--budget {found.budget_needed_s:.0f}s" in skipped.reason
    enough = choose(STEPS, long, left=found.budget_needed_s - 20.0)
    assert held(enough) == {"steps": None, "persistent": long.epoch}


def test_what_shows_in_steps_as_well_is_tried_in_those_where_epochs_are_too_long():
    long = Epoch(2000, 40.0)
    both = replace(candidate("both", long), in_steps=True)
    for others in ((), (candidate(epoch=long),)):
        found = choose(STEPS, both, *others)
        assert held(found) == {"steps": None, "both": None}
        assert [one.fix for one in found.skipped] == [one.name for one in others]
        assert (found.budget_needed_s is None) == (not others)
    several = choose(both, ranks=2)
    assert (held(several), several.skipped) == ({"both": None}, [])


def test_no_budget_is_offered_for_an_epoch_of_an_hour():
    found = choose(candidate(epoch=Epoch(10**6, 3600.0)))
    assert found.chosen == ()
    assert found.budget_needed_s is None
    assert "too long" in found.skipped[0].reason


def test_several_ranks_are_tried_in_short_slices_only():
    found = choose(STEPS, candidate(), candidate("predict", TURN), ranks=2)
    assert found.chosen == (STEPS,)
    assert [one.reason for one in found.skipped] == [RANKS, RANKS]


def test_what_saves_outside_the_steps_is_compared_in_whole_turns_as_they_are_written():
    found = choose(STEPS, candidate("predict", TURN), candidate())
    assert held(found) == {"steps": None, "predict": TURN, "persistent": EPOCH}
    alone = choose(candidate("predict", TURN))
    assert slices_text(alone.chosen) == "whole turns as they are written (30 steps each)"


def test_what_saves_within_steps_saves_of_an_epoch_what_the_steps_are_of_it():
    """35 % of an epoch went into its workers, 21 % into its steps: `prefetch_factor` came first."""
    epoch = Epoch(24, 1.73)
    workers = replace(candidate(epoch=epoch), bound=1.56, holds=epoch)
    others = [replace(candidate(f"steps {n}", None), bound=1.557, holds=epoch) for n in range(4)]
    costs = replace(COSTS, step_s=0.015)
    assert costs.in_steps(epoch) == pytest.approx(0.208, abs=0.001)
    chosen, _ = in_order([*others, workers], costs, False, None)
    hopes = {one.name: one.hope for one in chosen}
    assert hopes["persistent"] > 1.3 * max(hopes[one.name] for one in others if one.name in hopes)

from dataclasses import replace
from pathlib import Path

import pytest

from kit.simulated import RUN
from trainperf.model import Equivalence, Outcome, Ratio
from trainperf.trial.candidates import Candidate
from trainperf.trial.legs.faults import OutOfTime
from trainperf.trial.legs.leg import Leg
from trainperf.trial.outcome import (
    ONE_OFF_S,
    Baseline,
    Measured,
    Start,
    break_even,
    control_of,
    start_of,
    trial,
)
from trainperf.trial.parity import Band, Losses

LOSSES = Losses("loss", {n: 2.0 / n for n in range(1, 21)}, "fit")
OTHER = Losses("loss", {n: 3.0 / n for n in range(1, 21)}, "fit")
SURE = Band(True, 0.0)
FIX = Candidate(("fix",), RUN, Equivalence.EXACT, 1.8, 0)


def ratio(low, speedup, high, pairs=8):
    return Ratio(speedup, low, high, pairs, 3 * pairs)


def start(seconds, cpu_s=None):
    return None if seconds is None else Start(seconds, cpu_s)


def measured(found=None, losses=LOSSES, failure="", first_step_s=None, cpu_s=None):
    return Measured(FIX, found, losses, failure, start(first_step_s, cpu_s))


def control(low=0.99, high=1.01):
    return control_of(ratio(low, 1.0, high), SURE)


def baseline(of=None, losses=LOSSES, first_step_s=None, spread=0.0, cpu_s=None):
    return Baseline(0.1, 1e-5, losses, SURE, of or control(), start(first_step_s, cpu_s), spread)


def tried(one, beside=None, equivalence=Equivalence.EXACT):
    candidate = replace(FIX, equivalence=equivalence)
    return trial(replace(one, candidate=candidate), beside or baseline())


def test_a_clear_gain_that_trains_the_same_is_kept_without_a_word():
    found = tried(measured(ratio(1.4, 1.5, 1.6)))
    assert (found.outcome, found.reason, found.kept) == (Outcome.KEPT, "", True)
    assert (found.speedup, found.low, found.high) == (1.5, 1.4, 1.6)
    assert (found.pairs, found.steps, found.bound) == (8, 24, 1.8)
    assert found.parity == "20 losses equal to rounding"


def test_a_change_of_the_losses_or_a_failure_is_rejected_however_much_it_gains():
    found = tried(measured(ratio(4.9, 5.0, 5.1), losses=OTHER))
    assert (found.outcome, found.kept, found.reason) == (
        Outcome.LOSSES_DIFFER,
        False,
        found.parity,
    )
    found = tried(measured(ratio(1.4, 1.5, 1.6), failure="was killed by SIGKILL"))
    assert (found.outcome, found.kept, found.reason) == (
        Outcome.FAILED,
        False,
        "was killed by SIGKILL",
    )


def test_slower_is_said_only_where_the_whole_interval_is():
    assert tried(measured(ratio(0.7, 0.8, 0.97))).outcome is Outcome.SLOWER
    assert tried(measured(ratio(0.7, 0.8, 0.99))).outcome is Outcome.NO_EFFECT
    noisy = baseline(
        control(0.88, 1.2)
    )  # and beyond what two processes differ by beside neighbours
    assert tried(measured(ratio(0.4, 0.5, 0.7)), noisy).outcome is Outcome.SLOWER
    one = tried(measured(ratio(0.5, 0.64, 0.82)), noisy)
    assert one.outcome is Outcome.NO_EFFECT
    assert "two processes of one script may differ" in one.reason


@pytest.mark.parametrize(
    ("found", "of", "reason"),
    [
        (ratio(0.98, 1.0, 1.02), control(), ""),
        (ratio(0.90, 1.2, 1.6), control(), "not told from noise in 8 pairs"),
        (ratio(1.01, 1.06, 1.09), control(), "not told from noise in 8 pairs"),
        (ratio(1.005, 1.015, 1.02), control(), "a gain below 2 % is not worth an edit"),
        (ratio(1.02, 1.05, 1.07), control(0.9, 1.1), "gains below 5.1 % could be noise here"),
    ],
)
def test_no_measurable_effect_has_a_reason_where_there_was_one_to_see(found, of, reason):
    one = tried(measured(found), baseline(of))
    assert (one.outcome, one.reason, one.kept) == (Outcome.NO_EFFECT, reason, False)


@pytest.mark.parametrize("failure", [None, OutOfTime()])
def test_a_fix_for_which_the_time_did_not_suffice_was_not_tried_and_did_not_fail(failure):
    one = tried(measured(None, None, failure))
    assert one.outcome is Outcome.NOT_TRIED
    assert one.reason == "out of budget before it could be compared"


@pytest.mark.parametrize(
    ("limits", "least"),
    [
        ((0.9, 1.08, 1.1), 0.08),  # no less than what the control reads
        ((1.02, 1.03, 1.05), 0.05),  # wholly to one side
        ((0.94, 0.96, 0.99), 0.06),
    ],
)
def test_the_control_sets_the_floor(limits, least):
    assert control_of(ratio(*limits), SURE).floor == pytest.approx(least)


@pytest.mark.parametrize(
    ("own", "first", "spread"),
    [
        (10.0 + ONE_OFF_S / 2, 10.0, 0.0),  # too little to be seen
        (11.0, 10.0, 0.6),  # within the spread of two starts of the same script
        (8.0, 10.0, 0.0),  # starts earlier
        (None, 10.0, 0.0),
        (16.0, None, 0.0),
    ],
)
def test_a_start_like_the_unchanged_scripts_costs_nothing_once(own, first, spread):
    one = measured(ratio(1.9, 2.0, 2.1), first_step_s=own)
    assert break_even(one, baseline(first_step_s=first, spread=spread)) == (None, None)


def test_a_cache_that_the_first_epoch_fills_costs_that_epoch_once():
    unchanged = Start(10.0, None, ready_s=10.6, steps=6)  # steps of 0.1 s
    filling = Start(10.0, None, ready_s=20.2, steps=102)  # an epoch of them, then 0.05 s each
    one = replace(measured(ratio(1.9, 2.0, 2.1)), start=filling)
    extra, steps = break_even(one, replace(baseline(), start=unchanged))
    assert extra == pytest.approx(102 * 0.05)
    assert steps == 102


@pytest.mark.parametrize(("cpu_s", "costs"), [(12.0, 6.0), (9.0, 5.0), (4.1, None)])
def test_what_others_held_up_of_a_start_is_no_cost_of_the_change(cpu_s, costs):
    one = measured(ratio(1.9, 2.0, 2.1), first_step_s=16.0, cpu_s=cpu_s)
    extra, _ = break_even(one, baseline(first_step_s=10.0, cpu_s=4.0))
    assert extra == costs


def started_leg(*events, idle=()):
    leg = Leg("", RUN, Path("leg"))
    leg.started_s, leg._idle = 10.0, list(idle)
    leg._files.events[1] = [{"e": "loop"}, *events]
    return leg


UPDATE = {"e": "first_update", "t": 30.0, "cpu": 2.0}
READY = {"e": "leg", "t": 41.0, "steps": 6, "steps_per_call": 4, "cpu": 9.0}


def test_others_turns_are_no_part_of_a_start_and_count_once_where_it_waited_as_well():
    paused, waited, later = (12.0, 15.0), (14.0, 20.0), (35.0, 36.0)
    start = start_of(started_leg(UPDATE, READY, idle=[waited, later, paused]))
    assert (start.seconds, start.ready_s) == (20.0 - 8.0, 31.0 - 9.0)


def test_a_leg_is_not_charged_for_what_it_stood_still_nor_for_compiling():
    leg = started_leg(idle=[(12.0, 15.0)])
    leg._seen_s, leg._compiled_s = 22.0, 4.0
    assert leg.spent_s == 12.0 - 3.0 - 4.0

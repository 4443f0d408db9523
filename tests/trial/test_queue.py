"""Who is next, on a clock that only legs move."""

from dataclasses import replace

import pytest

from kit.simulated import Machine, candidate
from trainperf.recording.run import Epoch
from trainperf.trial.budget import MIN_PAIRS
from trainperf.trial.contest import OF_CONTROL
from trainperf.trial.legs.faults import LegFailed
from trainperf.trial.queue import PROCESSES

QUICK = {"start_s": 0.1}


def every(names="abc", **how):
    """How legs of these names behave: alike, but for their noise."""
    return {name: {"noise": 0.01, **how} for name in names}


@pytest.fixture
def compared(monkeypatch):
    """Compare candidates on a machine; a name stands for a plain one."""

    def compare(machine, candidates, seconds=600.0, **how):
        known = [candidate(one) if isinstance(one, str) else one for one in candidates]
        with machine.queue(monkeypatch, **how) as queue:
            found = queue.compare(known, machine.clock(seconds))
            compare.queue = queue
        return {measured.name: measured for measured in found}

    return compare


def test_between_two_slices_of_the_script_stand_three_of_changes(compared):
    machine = Machine(**every(step_s=0.081, **QUICK), control={"start_s": 30.0})
    compared(machine, "abc", seconds=10.0)
    ran = machine.ran[: machine.ran.index("control")] if "control" in machine.ran else machine.ran
    groups = "".join(name[0] if name != "base" else "|" for name in ran).strip("|").split("|")
    full = [group for group in groups if len(group) == 3]
    assert len(full) >= 3
    assert set(map(frozenset, full)) == {frozenset("abc")}
    assert full[0] == full[1][::-1], "back and forth"


@pytest.mark.parametrize(("spin", "most"), [(True, 1), (False, 2)])
def test_legs_whose_threads_spin_import_beside_each_other_and_make_steps_alone(
    compared, spin, most
):
    names = ("base", "control", "a", "b", "c")
    plans = {name: {"start_s": 4.0, "imports_s": 2 + at / 4} for at, name in enumerate(names)}
    machine = Machine(**plans)
    found = compared(machine, "abc", spin=spin, at_once=2)
    assert all(measured.ratio is not None for measured in found.values())
    assert machine.beside == most


def test_the_control_goes_on_where_a_gain_lies_within_what_may_be_noise(compared):
    pairs = []
    for step_s in (0.05, 0.088):
        noisy = {"noise": 0.15}
        compared(Machine(control=noisy, base=noisy, a={"step_s": step_s, "noise": 0.03}), "a")
        pairs.append(len(compared.queue._series[None].control.pairs))
    far, near = pairs
    assert MIN_PAIRS <= far < near <= OF_CONTROL


def test_what_is_clear_takes_three_or_four_pairs_and_the_verdict_waits_for_the_control(compared):
    names = {
        "a": {"step_s": 0.05, "noise": 0.01},
        "b": {"step_s": 0.1, "noise": 0.005},
        "c": {"step_s": 0.17, "noise": 0.01},
    }
    found = compared(Machine(**names, control={"start_s": 9.0}), "abc")
    assert all(len(one.pairs) <= 4 for one in found.values())
    assert [round(one.ratio.speedup, 1) for one in found.values()] == [2.0, 1.0, 0.6]
    assert compared.queue.baseline().control.pairs >= MIN_PAIRS


def test_where_all_fail_as_they_start_the_script_is_measured_nevertheless(compared):
    found = compared(Machine(hangs={"start_s": 1e6}), ["hangs"])
    assert "made too few steps to begin with" in str(found["hangs"].failure)
    assert compared.queue.baseline().step_s == pytest.approx(0.1)


def test_a_gain_that_may_be_noise_waits_for_the_control_and_takes_no_slices_meanwhile(compared):
    """Eight of 1.2 each took 24 pairs, and the control none."""
    machine = Machine(**every("abcdefgh", step_s=0.084))
    found = compared(machine, [candidate(name, hope=3.0) for name in "abcdefgh"])
    assert all(len(one.pairs) == MIN_PAIRS for one in found.values())
    assert compared.queue.baseline().control.pairs >= MIN_PAIRS


@pytest.mark.parametrize("slots", [10, 4, 3, 2])
def test_the_verdict_is_the_same_whatever_room_there_is(compared, slots):
    names = {**every("a", step_s=0.05), **every("b"), **every("c", step_s=0.2)}
    found = compared(Machine(**names), "abc", slots=slots)
    assert [round(one.ratio.speedup, 1) for one in found.values()] == [2.0, 1.0, 0.5]
    assert not any(one.failure for one in found.values())
    assert compared.queue.legs == 5


@pytest.mark.parametrize("place", [0, 1])
def test_a_leg_that_starts_for_very_long_holds_up_nobody_and_is_late(compared, place):
    names = {**every("bc", step_s=0.05), "slow": {"start_s": 1e6}}
    candidates = ["b", "c"]
    candidates.insert(place, candidate("slow", compiles=True))
    machine = Machine(**names)
    found = compared(machine, candidates, seconds=60.0)
    assert found["slow"].late
    assert found["b"].ratio.low > 1.5 < found["c"].ratio.low
    (slow,) = [leg for leg in machine.legs if leg.name == "slow"]
    assert slow.spent_s > 40.0, "it had all the time that the others left"
    assert slow.spent_s < machine.now - 5.0, "and none of theirs"
    alone = Machine(**every("bc", step_s=0.05))
    compared(alone, "bc")
    decided = compared(Machine(**names), candidates, seconds=alone.now + 10.0)
    assert [one.late for one in decided.values()].count(True) == 1


def test_a_leg_that_compiles_for_very_long_holds_up_nobody(compared):
    found = compared(Machine(**every("b", step_s=0.05), slow={"compile_s": 1e6}), ["slow", "b"], 30)
    assert found["slow"].late
    assert found["b"].ratio.low > 1.5


def test_a_leg_that_warms_up_on_its_device_is_not_paused(compared):
    tunes = {"start_s": 8.0, "warms_up_on_device": True, "step_s": 0.05}
    machine = Machine(**every("b"), tunes=tunes)
    found = compared(machine, ["b", "tunes"])
    (leg,) = [leg for leg in machine.legs if leg.name == "tunes"]
    assert leg.pauses == 0
    assert found["tunes"].ratio.low > 1.5
    usual = Machine(**every("b"), slow={"start_s": 8.0, "step_s": 0.05})
    compared(usual, ["b", "slow"])
    assert [leg.pauses > 0 for leg in usual.legs if leg.name == "slow"] == [True]


@pytest.mark.parametrize("slots", [8, 2])
def test_what_could_change_nothing_any_more_takes_no_more_time(monkeypatch, slots):
    def look(measured, candidates):
        there = any(one.name == "a" and one.ratio for one in measured)
        names = [one.name for one in candidates if one.name != "c"]
        return 0.0, dict.fromkeys(names, "a gives all") if there else {}

    machine = Machine(**every("a", step_s=0.05), **every("bcd", start_s=3.0))
    with machine.queue(monkeypatch, slots=slots) as queue:
        given = [candidate(name) for name in "abcd"]
        found = queue.compare(given, machine.clock(), look)
    assert [one.needless for one in found] == ["", "a gives all", "", "a gives all"]
    assert [one.ratio is not None for one in found] == [True, False, True, False]
    assert not any(one.late for one in found)


def test_when_the_unchanged_script_cannot_go_on_what_was_measured_stands(compared):
    machine = Machine(base={"fails_at": 9}, **every("a", step_s=0.085), **every("b", step_s=0.085))
    found = compared(machine, "ab")
    assert all(one.ratio or "as it is base breaks" in str(one.failure) for one in found.values())
    assert any(len(one.pairs) >= 3 for one in found.values())
    with pytest.raises(LegFailed, match="base breaks"):
        compared(Machine(base={"fails_at": 1}), "ab")


def test_changes_in_whole_epochs_and_in_steps_share_the_legs_and_each_kind_its_own_noise(compared):
    """The input is opened in 2 s for 20 steps of 0.1 s: half of an epoch, and no step shows it."""
    opens, epoch = {"opening_s": 2.0}, Epoch(20, 4.0)
    machine = Machine(
        base=dict(opens), control=dict(opens), steps={"step_s": 0.05, **opens}, input={}
    )
    changes = [candidate("steps"), replace(candidate("input"), holds=epoch)]
    found = compared(machine, changes)
    assert found["steps"].ratio.speedup == pytest.approx(2.0)
    assert found["input"].ratio.speedup == pytest.approx(2.0)
    assert (found["steps"].holds, found["input"].holds) == (None, epoch)
    assert [leg.name for leg in machine.legs] == ["", "control", "steps", "input"]
    queue = compared.queue
    assert queue.baseline().step_s == pytest.approx(0.1)
    assert queue.baseline(epoch).step_s == pytest.approx(0.2)
    in_steps, in_epochs = (len(queue._series[holds].control.pairs) for holds in (None, epoch))
    assert (in_steps >= MIN_PAIRS, in_epochs) == (True, 0)  # a gain beyond all noise needs none
    # no slice stands next to one of another kind
    asked = [leg.asked_steps for leg in machine.legs if leg.name in ("steps", "input")]
    assert {*asked[0]} & {*asked[1]} == set()


@pytest.mark.parametrize(("seconds", "dropped"), [(2.0, 1), (12.0, 0)])
def test_the_first_short_turn_of_each_leg_counts_for_nobody(compared, seconds, dropped):
    machine = Machine(predict={"step_s": 0.05})
    turn = Epoch(20, seconds, written=True)
    found = compared(machine, [replace(candidate("predict"), holds=turn)])
    (changed,) = [leg for leg in machine.legs if leg.name == "predict"]
    assert len(changed.asked_steps) == len(found["predict"].pairs) + dropped


def test_a_gain_in_whole_epochs_that_may_be_noise_waits_for_their_own_control(compared):
    opens, epoch = {"opening_s": 0.4}, Epoch(20, 2.4)
    machine = Machine(base=dict(opens), control=dict(opens), input={})
    found = compared(machine, [replace(candidate("input"), holds=epoch)])
    assert found["input"].ratio.speedup == pytest.approx(1.2)
    assert {len(series.control.pairs) for series in compared.queue._series.values()} == {MIN_PAIRS}


@pytest.mark.parametrize("seconds", [1.0, 2.0, 3.0, 5.0, 8.0, 12.0])
def test_when_the_time_is_over_all_ends_at_once_and_nobody_failed(compared, seconds):
    machine = Machine(**every(step_s=0.083), base={"start_s": 2.5})
    try:
        found = compared(machine, "abc", seconds=seconds)
    except LegFailed:
        assert machine.ran == [], "the script itself did not start in time"
    else:
        assert all(one.late or one.ratio for one in found.values())
    assert machine.now <= seconds + 0.5
    assert all(leg.ended or not leg.started_s for leg in machine.legs)


def quiet(step_s):
    return {"step_s": step_s, "noise": 0.01}


def twice(one, other=None):
    """How the two processes of a change that is to be judged behave."""
    return {f"x ({name})": how for name, how in zip(PROCESSES, (one, other or one), strict=True)}


@pytest.mark.parametrize("gain", [1.0, 1.05, 1.5, 0.9])
def test_a_change_that_is_to_be_judged_runs_in_two_processes_until_it_is(compared, gain):
    machine = Machine(**twice(quiet(0.1 / gain)), control=quiet(0.1))
    found = compared(machine, [candidate("x", difference=0.02)])["x"].ratio
    assert len(machine.legs) == 4
    assert found.low - 0.005 <= gain <= found.high + 0.005
    told = 1 if found.low > 1.02 else -1 if found.high < 1 / 1.02 else 0
    assert told == (gain > 1) - (gain < 1)
    assert found.pairs < 300


def test_changes_that_are_to_be_judged_are_so_at_the_same_time(compared):
    """The first process of the first one had all of it, and nothing was known of the others."""
    names = [f"{change} ({process})" for change in "xyz" for process in PROCESSES]
    noisy = every(["base", "control", *names], step_s=0.5, noise=0.1)
    changes = [candidate(change, difference=0.02) for change in "xyz"]
    found = compared(Machine(**noisy), changes, 120.0, step_s=0.5)
    assert all(measured.ratio.low < 1.02 for measured in found.values())
    pairs = [measured.ratio.pairs for measured in found.values()]
    assert max(pairs) - min(pairs) <= 4


def test_a_process_that_is_quick_for_its_whole_life_proves_no_change(compared):
    machine = Machine(**twice(quiet(0.08), quiet(0.1)), control=quiet(0.1))
    found = compared(machine, [candidate("x", difference=0.02)], 60.0)["x"].ratio
    assert found.low < 1.02
    lucky = Machine(**twice(quiet(0.08)), control=quiet(0.08))  # all but the script's first process
    found = compared(lucky, [candidate("x", difference=0.02)], 60.0)["x"].ratio
    assert found.low < 1.02 < found.high


def test_a_judged_change_that_fails_in_one_process_has_failed(compared):
    machine = Machine(**twice(quiet(0.1), {**quiet(0.1), "fails_at": 3}), control=quiet(0.1))
    found = compared(machine, [candidate("x", difference=0.02)])["x"]
    assert str(found.failure) == "x (in another) breaks"
    assert all(leg.ended for leg in machine.legs if leg.name.startswith("x"))

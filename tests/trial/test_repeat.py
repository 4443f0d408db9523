"""What was kept, once more in fresh processes."""

import math
from dataclasses import replace

import pytest

from kit.legs import PLAIN, base_run, bench, changed, clock, repeated, written
from kit.simulated import Machine, candidate
from trainperf.model import Length, Ratio, Training
from trainperf.trial.queue import PROCESSES
from trainperf.trial.ratio import of_two
from trainperf.trial.repeat import PAIRS, Repeated, left_to_whole_runs, repeat

FIRST, SECOND = (f"fix ({process})" for process in PROCESSES)


def ratio(speedup, noise=0.01):
    return Ratio(speedup, speedup / (1 + noise), speedup * (1 + noise), PAIRS, 24)


@pytest.mark.parametrize(
    ("first", "second", "twin", "stands"),
    [
        (1.5, 1.5, 1.0, True),
        (1.5, 1.01, 1.0, False),  # one pair of processes differed, and not for the change
        (1.3, 1.3, 1.3, False),  # the other process of the unchanged script is as fast
        (1.3, 1.7, 1.3, True),
        (0.9, 1.5, 1.0, False),
    ],
)
def test_a_gain_stands_where_each_pair_of_processes_shows_it(first, second, twin, stands):
    found = Repeated(*of_two(ratio(first), ratio(second), twin))
    assert found.stands is stands
    assert found.pairs == pytest.approx((first, second / twin))
    assert found.ratio.speedup == pytest.approx(math.sqrt(first * second / twin))
    assert found.ratio.low <= min(found.pairs) <= max(found.pairs) <= found.ratio.high
    assert found.ratio.pairs == 2 * PAIRS


def test_a_gain_that_may_be_as_large_a_loss_does_not_stand():
    wide = ratio(1.3, 1.8)
    assert not Repeated(wide, (1.3,)).stands
    assert Repeated(ratio(1.3, 0.4), (1.3,)).stands


def repeated_on(machine, monkeypatch, seconds=600.0, slots=10):
    """What comes of repeating "fix" on a machine with simulated legs."""
    bench = machine.queue(monkeypatch, slots=slots).bench
    return repeat(bench, candidate("fix"), machine.clock(seconds))


@pytest.mark.parametrize("slots", [10, 3, 2])
@pytest.mark.parametrize(("step_s", "stands"), [(0.05, True), (0.1, False), (0.2, False)])
def test_what_repeats_in_two_pairs_of_processes_stands(monkeypatch, step_s, stands, slots):
    changed = {"step_s": step_s, "noise": 0.01}
    machine = Machine(**{FIRST: changed, SECOND: changed}, control={"noise": 0.01})
    found = repeated_on(machine, monkeypatch, slots=slots)
    assert found.stands is stands
    assert found.pairs == pytest.approx((0.1 / step_s, 0.1 / step_s), rel=0.03)


def test_a_process_that_is_slow_for_its_whole_life_makes_no_gain(monkeypatch):
    same = {"step_s": 0.08}
    processes = {FIRST: same, SECOND: same}
    machine = Machine(base={"step_s": 0.1}, **processes, control={"step_s": 0.08})
    found = repeated_on(machine, monkeypatch)
    assert found.pairs == pytest.approx((1.25, 1.0))
    assert not found.stands


@pytest.mark.parametrize(
    ("made", "seconds", "reason"),
    [
        ({SECOND: {"fails_at": 2}}, 600.0, f"{SECOND} breaks"),
        ({"base": {"fails_at": 1}}, 600.0, "the script base breaks"),
        ({FIRST: {"start_s": 1e6}}, 8.0, "out of budget"),
        ({"base": {"start_s": 1e6}}, 8.0, "out of budget"),
    ],
)
def test_what_could_not_be_repeated_says_why(monkeypatch, made, seconds, reason):
    found = repeated_on(Machine(**made), monkeypatch, seconds)
    assert (found.ratio, found.stands, found.reason) == (None, False, reason)


def test_short_scripts_are_left_to_plain_runs_of_the_whole():
    short = Training(Length(100, "100 steps"), seconds_now=12.0)
    assert left_to_whole_runs(short, 1.0, 2.0, 100.0)  # 2 × 12 s and 2 × 6 s
    assert not left_to_whole_runs(short, 1.0, 2.0, 30.0)
    assert not left_to_whole_runs(short, 0.1, 2.0, 45.0), "nine tenths stay as they are"
    assert not left_to_whole_runs(replace(short, seconds_now=60.0), 1.0, 2.0, 500.0)
    assert not left_to_whole_runs(None, 1.0, 2.0, 500.0)


@pytest.mark.alone
@pytest.mark.usefixtures("nothing_left")
@repeated
def test_half_as_long_a_step_stands_in_fresh_processes_and_the_same_does_not(tmp_path, monkeypatch):
    monkeypatch.setattr("trainperf.trial.budget.SLICE_S", 0.1)
    script = written(tmp_path, PLAIN.format(0.02))
    run = base_run(script)
    half = repeat(bench(run, tmp_path), changed(run, script, PLAIN.format(0.01)), clock())
    assert half.stands
    assert all(1.5 < pair < 2.3 for pair in half.pairs)
    same = repeat(bench(run, tmp_path), changed(run, script, PLAIN.format(0.02) + "#"), clock())
    assert not same.stands
    assert list((tmp_path / "runs").iterdir()) == []

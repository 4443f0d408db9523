from dataclasses import replace

import pytest

from legs import LOOP, base_run, bench, changed, clock, repeated, side_by_side, written
from trainperf.model import Equivalence, Outcome
from trainperf.trial import turns
from trainperf.trial.legs import leg
from trainperf.trial.legs.leg import LegFailed
from trainperf.trial.outcome import trial
from trainperf.trial.side_by_side import SideBySide

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("nothing_left")]

ENDING = LOOP + "train(lambda number: time.sleep({}), steps={})"


@repeated
def test_what_was_measured_counts_where_the_unchanged_script_ends_too_soon(tmp_path, monkeypatch):
    monkeypatch.setattr(turns, "SLICE_S", 0.1)
    monkeypatch.setattr(turns, "MIN_PAIRS", 100)  # nothing is decided before the end
    monkeypatch.setattr(leg, "MANY_TURNS", 100)  # it is not worth another start
    script = written(tmp_path, ENDING.format(0.02, 70))
    run = base_run(script)
    half = changed(run, script, ENDING.format(0.01, 5000), "half")
    bad = changed(run, script, LOOP + "raise ValueError('no')", "bad")
    with side_by_side(run, tmp_path) as engine:
        one, other = engine.compare([half, bad], clock())
        baseline = engine.baseline()
        assert one.failure == ""
        assert one.ratio.speedup > 1.4
        assert other.failure == "fails: ValueError: no"
        with pytest.raises(LegFailed, match="ended before"):
            engine.compare([half], clock())
        assert engine.baseline().step_s == baseline.step_s


@repeated
def test_legs_whose_loops_end_by_themselves_are_followed_by_others(tmp_path, monkeypatch):
    monkeypatch.setattr(turns, "SLICE_S", 0.1)
    monkeypatch.setattr(turns, "FAR", 100.0)  # fewer pairs than these decide nothing
    monkeypatch.setattr(turns, "MIN_PAIRS", 14)
    script = written(tmp_path, ENDING.format(0.02, 150))
    run = base_run(script)
    half = changed(run, script, ENDING.format(0.01, 150), "half")
    with side_by_side(run, tmp_path) as engine:
        (one,) = engine.compare([half], clock())
        assert one.failure == ""
        assert len(one.pairs) >= 14
        assert one.ratio.speedup > 1.4
        assert engine.legs >= 5  # the script, its control, the change; two of them again
        (again,) = engine.compare([changed(run, script, ENDING.format(0.005, 150))], clock())
        assert again.ratio.speedup > 2


def test_an_unchanged_script_that_never_made_a_slice_cannot_be_compared(tmp_path):
    script = written(tmp_path, LOOP + "raise MemoryError('no room')")
    run = base_run(script)
    with side_by_side(run, tmp_path) as engine:
        with pytest.raises(LegFailed, match="fails: MemoryError: no room"):
            engine.compare([changed(run, script, ENDING.format(0.01, 50))], clock())
        with pytest.raises(LegFailed, match="fails: MemoryError: no room"):
            engine.baseline()


def test_candidates_that_came_too_late_were_not_tried_and_did_not_fail(tmp_path, monkeypatch):
    monkeypatch.setattr(turns, "SLICE_S", 0.1)
    script = written(tmp_path, ENDING.format(0.02, 5000))
    run = base_run(script)
    bad = changed(run, script, LOOP + "raise ValueError('no')", "bad")
    with side_by_side(run, tmp_path) as engine:
        engine.compare([bad], clock())
        (one,) = engine.compare([changed(run, script, "", "late")], clock(0.0))
        assert one.late
        assert trial(one, Equivalence.EXACT, None, engine.baseline()).outcome is Outcome.NOT_TRIED


LOCKED = (
    LOOP
    + """
import fcntl
lock = open("lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
train(lambda number: time.sleep(0.02))
"""
)


def test_a_script_that_cannot_run_twice_at_a_time_is_not_compared_beside_itself(tmp_path):
    script = written(tmp_path, LOCKED)
    run = base_run(script)
    with (
        side_by_side(run, tmp_path) as engine,
        pytest.raises(LegFailed, match="fails: BlockingIOError"),
    ):
        engine.compare([changed(run, script, LOCKED + "#")], clock())


def test_what_earlier_ones_gave_stands_where_the_script_ends_later(tmp_path, monkeypatch):
    took = iter([None, LegFailed("ended")])
    start = SideBySide._start
    monkeypatch.setattr(
        SideBySide, "_start", lambda self, *given: raised(next(took)) or start(self, *given)
    )
    monkeypatch.setattr(turns, "SLICE_S", 0.05)
    script = written(tmp_path, ENDING.format(0.01, 5000))
    run = base_run(script)
    few = replace(bench(run, tmp_path), legs=3)
    names = [changed(run, script, ENDING.format(0.002, 50000), name) for name in "abc"]
    with SideBySide(few) as engine:
        first, *others = engine.compare(names, clock())
    assert first.ratio.speedup > 1.5
    assert [(one.name, one.failure) for one in others] == [
        ("b", "could not be compared: the script as it is ended"),
        ("c", "could not be compared: the script as it is ended"),
    ]


def raced(tmp_path, monkeypatch, names, step_s=0.002):
    """The run of a script of 10 ms a step, and legs that take `step_s`, in short slices."""
    monkeypatch.setattr(turns, "SLICE_S", 0.05)
    script = written(tmp_path, ENDING.format(0.01, 50000))
    run = base_run(script)
    return run, [changed(run, script, ENDING.format(step_s, 500000), name) for name in names]


def test_who_is_decided_makes_room_for_the_next(tmp_path, monkeypatch):
    run, legs = raced(tmp_path, monkeypatch, "abc")
    few = replace(bench(run, tmp_path), legs=3)
    with SideBySide(few) as engine:
        found = engine.compare(legs, clock())
        assert engine.legs == 5
    assert [one.name for one in found] == ["a", "b", "c"]
    assert all(one.ratio.speedup > 1.5 for one in found)


def test_who_was_decided_stays_so_though_more_pairs_of_others_raise_the_floor(
    tmp_path, monkeypatch
):
    pairs = {}

    def enough(contest, floor):
        name = contest.leg.name
        pairs[name] = len(contest.pairs)
        if name == "a":
            return pairs["a"] >= 3 and pairs.get("b", 0) < 5
        return pairs[name] >= 5

    monkeypatch.setattr("trainperf.trial.side_by_side.enough", enough)
    run, legs = raced(tmp_path, monkeypatch, "abc", 0.008)
    few = replace(bench(run, tmp_path), legs=4)
    with SideBySide(few) as engine:
        found = engine.compare(legs, clock())
    assert [(one.name, one.failure, len(one.pairs)) for one in found] == [
        ("a", "", 3),
        ("b", "", 5),
        ("c", "", 5),
    ]


def test_what_changes_the_experiment_starts_when_all_others_had_their_turn(tmp_path, monkeypatch):
    waves = []
    start = SideBySide._start
    monkeypatch.setattr(
        SideBySide,
        "_start",
        lambda self, legs, clock: (
            waves.append([one.name for one in legs]),
            start(self, legs, clock),
        ),
    )
    run, legs = raced(tmp_path, monkeypatch, "abcd")
    apart = [replace(one, apart=one.name in "cd") for one in legs]
    with side_by_side(run, tmp_path) as engine:
        found = engine.compare(apart, clock())
    assert waves == [["a", "b"], ["c", "d"]]
    assert all(one.ratio.speedup > 1.5 for one in found)


def test_none_is_lost_where_one_that_promises_nothing_stands_behind_another_experiment(
    tmp_path, monkeypatch
):
    run, legs = raced(tmp_path, monkeypatch, "abc")
    mixed = [replace(one, apart=one.name == "b") for one in legs]
    with side_by_side(run, tmp_path) as engine:
        found = engine.compare(mixed, clock())
        assert engine.legs == 5
    assert [one.name for one in found if one.ratio is not None] == ["a", "b", "c"]


def test_what_cannot_start_in_the_time_that_is_left_is_late(tmp_path, monkeypatch):
    run, legs = raced(tmp_path, monkeypatch, "ab")
    few = replace(bench(run, tmp_path), legs=3)

    def keep(measured):
        return 1000.0 if measured else 0.0

    with SideBySide(few) as engine:
        one, other = engine.compare(legs, clock(), keep)
    assert one.ratio is not None
    assert other.late


@repeated
def test_values_race_and_the_loser_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(turns, "SLICE_S", 0.05)
    script = written(tmp_path, ENDING.format(0.02, 50000))
    run = base_run(script)
    slow, fast = (
        replace(changed(run, script, ENDING.format(step_s, 500000), "fix"), variant=str(step_s))
        for step_s in (0.012, 0.003)
    )
    with SideBySide(bench(run, tmp_path)) as engine:
        one, other = engine.compare([slow, fast], clock())
    assert one.ratio.high < other.ratio.low
    assert len(one.pairs) <= len(other.pairs)


@pytest.mark.parametrize(
    ("before", "three"), [(7.0, 7.0 + 3 * 3.0), (None, 10.0)], ids=["in turn", "beside"]
)
def test_later_legs_are_expected_to_start_as_the_first_one_did(
    tmp_path, monkeypatch, before, three
):
    monkeypatch.setattr(SideBySide, "_at_once", 4)
    with side_by_side(base_run(written(tmp_path, LOOP)), tmp_path) as engine:
        assert engine._starting(3, 0) == engine._bench.costs.starting(3)
        engine._base.ready_s, engine._base.before_device_s = 10.0, before
        assert engine._starting(3, 0) == three


def raised(what):
    if isinstance(what, Exception):
        raise what
    return what

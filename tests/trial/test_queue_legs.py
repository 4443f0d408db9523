"""The queue with real legs: slow starts, loops that end, a card that does not hold them all."""

from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise

import psutil
import pytest

from kit.legs import (
    LOOP,
    PLAIN,
    base_run,
    bench,
    changed,
    clock,
    queue,
    repeated,
    written,
)
from trainperf.model import Outcome
from trainperf.trial import budget
from trainperf.trial import queue as queue_module
from trainperf.trial.budget import CACHES
from trainperf.trial.legs import leg as leg_module
from trainperf.trial.legs import starting
from trainperf.trial.legs.faults import LegFailed, OutOfMemory
from trainperf.trial.legs.leg import Leg
from trainperf.trial.outcome import trial
from trainperf.trial.queue import ALONE, Queue

pytestmark = [pytest.mark.script, pytest.mark.usefixtures("nothing_left")]

ENDING = LOOP + "train(lambda number: time.sleep({}), steps={})"


@pytest.fixture(autouse=True)
def short_slices(monkeypatch):
    monkeypatch.setattr(budget, "SLICE_S", 0.05)


def nightly(value):
    return pytest.param(value, marks=pytest.mark.long)


def after(pairs):
    """A contest is over after so many pairs, whatever they show."""
    return lambda one, *_: len(one.pairs) >= pairs


def test_what_legs_compiled_goes_where_trainperf_is_killed(tmp_path):
    made = bench(base_run(tmp_path / "train.py"), tmp_path)
    guard = made.guard()
    (made.folder / CACHES / "inductor").mkdir(parents=True)
    guard._process.stdin.close()  # as the kernel does when trainperf is gone
    guard._process.wait(30)
    assert made.folder.exists()
    assert not (made.folder / CACHES).exists()


@pytest.mark.alone
@repeated
@pytest.mark.parametrize("slots", [10, nightly(3), nightly(2), 1])
def test_twice_as_fast_is_seen_to_be_so_whatever_room_there_is(tmp_path, slots):
    script = written(tmp_path, PLAIN.format(0.02))
    run = base_run(script)
    half = changed(run, script, PLAIN.format(0.01), "half")
    same = changed(run, script, PLAIN.format(0.02) + "#", "same")
    with queue(run, tmp_path, slots=slots) as engine:
        measured = engine.compare([half, same], clock())
        base = engine.baseline()
    outcomes = [trial(one, base).outcome for one in measured]
    assert outcomes == [Outcome.KEPT, Outcome.NO_EFFECT]
    assert 1.5 < measured[0].ratio.speedup < 2.3
    assert 0.8 < base.control.speedup < 1.25


@pytest.mark.alone
@repeated
def test_what_was_measured_counts_where_the_unchanged_script_ends_too_soon(tmp_path, monkeypatch):
    monkeypatch.setattr(leg_module, "MANY_TURNS", 1000)  # it is not worth another start
    script = written(tmp_path, ENDING.format(0.02, 100))
    run = base_run(script)
    half = changed(run, script, ENDING.format(0.01, 5000), "half")
    bad = replace(changed(run, script, LOOP + "raise ValueError('no')", "bad"), hope=9.0)
    with Queue(bench(run, tmp_path), after(1000)) as engine:
        one, other = engine.compare([half, bad], clock())
        baseline = engine.baseline()
        assert "the script as it is ended before" in str(one.failure) or not one.failure
        assert one.ratio.speedup > 1.4
        assert str(other.failure) == "fails: ValueError: no"
        with pytest.raises(LegFailed, match="ended before"):
            engine.compare([half], clock())
        assert engine.baseline().step_s == baseline.step_s


@pytest.mark.alone
@repeated
def test_legs_whose_loops_end_by_themselves_are_followed_by_others(tmp_path):
    script = written(tmp_path, ENDING.format(0.02, 80))
    run = base_run(script)
    half = changed(run, script, ENDING.format(0.01, 80), "half")
    with Queue(bench(run, tmp_path), after(14)) as engine:
        (one,) = engine.compare([half], clock())
        assert not one.failure
        assert len(one.pairs) >= 14
        assert one.ratio.speedup > 1.4
        assert engine.legs >= 5  # the script, its control, the change; two of them again
        (again,) = engine.compare([changed(run, script, ENDING.format(0.005, 150))], clock())
        assert again.ratio.speedup > 2


def test_memory_that_runs_out_ends_the_leg_that_was_started_last(tmp_path, monkeypatch):
    monkeypatch.setattr(Queue, "_at_once", 2)
    short = iter([False] * 5 + [True])
    monkeypatch.setattr(starting, "memory_is_short", lambda: next(short, False))
    run = base_run(written(tmp_path, PLAIN.format(0.02)))
    with queue(run, tmp_path) as engine:
        last = Leg("last", run, tmp_path / "last")
        engine._start([engine._base, last], clock())
        assert (engine._base.failure, type(last.failure)) == (None, OutOfMemory)
        assert str(last.failure) == "ended: the machine's memory was running out"
        assert not psutil.pid_exists(last._process.pid if last._process else -1)


CARD = (
    LOOP
    + """
class OutOfMemoryError(RuntimeError):
    pass

def lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False

def allocate(most):
    os.makedirs("card", exist_ok=True)
    open(f"card/{os.getpid()}", "w").close()
    if sum(map(lives, os.listdir("card"))) > most:
        raise OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
"""
)


def trains(most, step):
    """It fails as on PyTorch where more than so many processes have their memory on the card."""
    return f"{CARD}allocate({most})\ntrain(lambda number: time.sleep({step}))\n"


def on_card(folder, most, slots=10, step=0.02):
    """The engine of a script of which the card holds so many, and what makes candidates of it."""
    script = written(folder, trains(most, step))
    run = base_run(script)

    def candidate(name, most=most, step=0.005):
        return changed(run, script, trains(most, step), name)

    return Queue(bench(run, folder, slots=slots)), candidate


@pytest.mark.alone
def test_who_runs_out_of_memory_beside_many_is_measured_alone_and_the_next_beside_fewer(tmp_path):
    engine, candidate = on_card(tmp_path, most=3)
    engine._over = after(60)
    with engine:  # who promises so much starts before those that stand are decided
        given = [replace(candidate(name), hope=50.0) for name in "abc"]
        found = engine.compare(given, clock())
    assert [one.name for one in found] == ["a", "b", "c"]
    assert not any(one.failure for one in found)
    assert all(one.ratio.speedup > 1.5 for one in found)
    assert {one.note for one in found} == {"", ALONE}
    assert engine._slots == 3


def test_a_script_that_fits_but_once_is_not_compared_beside_itself(tmp_path):
    engine, candidate = on_card(tmp_path, most=1)
    with engine, pytest.raises(LegFailed, match="fails: OutOfMemoryError: CUDA out of memory"):
        engine.compare([candidate("a")], clock())


@pytest.mark.alone
def test_who_needs_the_card_for_itself_is_tried_alone_before_it_is_called_failed(tmp_path):
    engine, candidate = on_card(tmp_path, most=10)
    with engine:
        large, none, small = engine.compare(
            [candidate("large", most=1), candidate("none", most=0), candidate("small")], clock()
        )
        (again,) = engine.compare([candidate("stack")], clock())
        assert engine.baseline().control.pairs >= 6
    assert (large.note, none.note, small.note) == (ALONE, ALONE, "")
    assert large.ratio.speedup > 1.5
    assert str(none.failure).startswith("fails: OutOfMemoryError")
    assert small.ratio.speedup > 1.5
    assert again.ratio.speedup > 1.5


@pytest.mark.alone
def test_slices_in_which_memory_ran_short_count_for_nobody(tmp_path):
    script = written(tmp_path, LOOP + "train(lambda number: time.sleep(0.02))\n")
    run = base_run(script)
    count = LOOP.replace(
        "    seen = training()\n",
        "    seen = training()\n    seen.retries = lambda: RETRIES[0]\n",
    )
    every = "RETRIES = [0]\ndef step(number):\n    RETRIES[0] += 1\n    time.sleep(0.005)\n"
    few = every.replace("+= 1", "+= number < 14")
    short = changed(run, script, f"{count}{every}train(step)\n", "short")
    at_first = changed(run, script, f"{count}{few}train(step)\n", "at first")
    with queue(run, tmp_path) as engine:
        one, other = engine.compare([short, at_first], clock())
    assert one.note == ALONE
    assert one.ratio.speedup > 1.5  # alone its memory is its own, and so is what it does with it
    assert other.note == ""
    assert other.ratio.speedup > 1.5


SHARED = (
    LOOP
    + """
from types import SimpleNamespace
from _trainperf_child.timing.legs.words import WarmUp

with open(os.environ["TRAINPERF_RUN"], encoding="utf-8") as file:
    settings = json.load(file)
told = WarmUp(SimpleNamespace(settings=settings))

def log():
    with open(f"log-{os.getpid()}", "a") as file:
        file.write(f"{time.monotonic()}\\n")

def step(number):
    if number < 7:
        log()
    time.sleep(0.02)

told.before_device()
log()
train(step)
"""
)

MEET = SHARED.replace(
    "told.before_device()\n",
    """
def that_wait():
    return sum(one.startswith("log-") for one in os.listdir("."))

log()
told.before_device()
log()
while that_wait() < 4:
    time.sleep(0.01)
""",
)
"""All legs wait for their device before the first of them warms up on it."""


@pytest.mark.alone
def test_one_leg_at_a_time_warms_up_on_its_device(tmp_path, monkeypatch):
    monkeypatch.setattr(Queue, "_at_once", 4)
    script = written(tmp_path, MEET)
    run = base_run(script)
    fast = MEET.replace("0.02", "0.005")
    with given_devices() as given, queue(run, tmp_path) as engine:
        found = engine.compare([changed(run, script, fast, name) for name in "ab"], clock())
    assert all(one.ratio is not None for one in found)
    logs = {
        leg: [float(line) for line in (tmp_path / f"log-{pid}").read_text().split()]
        for leg, pid in given.items()
    }
    assert len(logs) == 4
    for (leg, (_, _, *steps)), (later, (wants, begins, *_)) in pairwise(logs.items()):
        assert steps[-1] < begins
        # What it waits for the others is none of its start, and what comes before it is.
        assert later.own_s(begins) == pytest.approx(wants - later.started_s, abs=0.2)
        assert leg.ready_s < begins - leg.started_s


@contextmanager
def given_devices():
    """The legs that are let use their device, each with its process, in their order."""
    given, give = {}, Leg.give_device

    def noted(leg):
        given[leg] = leg._process.pid
        give(leg)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Leg, "give_device", noted)
        yield given


FAST = SHARED.replace("0.02", "0.005")
COMPILES = FAST.replace("told.before_device()", "told.compile_begins()").replace(
    "log()\ntrain", "time.sleep(1.5)\ntold.compile_ends()\ntrain"
)
SLEEPS = LOOP + "time.sleep(1.5)\ntrain(lambda number: time.sleep(0.005))\n"


@pytest.mark.alone
def test_what_compiles_or_is_known_to_do_so_is_limited_by_the_budget_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(queue_module, "MORE_S", 0.5)
    monkeypatch.setattr(queue_module, "MORE_TIMES", 1.0)
    script = written(tmp_path, LOOP + "train(lambda number: time.sleep(0.02))\n")
    run = base_run(script)
    compiles = changed(run, script, COMPILES, "compiles")
    hangs = changed(run, script, SLEEPS.replace("1.5", "8"), "hangs")
    slow = replace(changed(run, script, SLEEPS, "slow"), compiles=True)
    with queue(run, tmp_path) as engine:
        found = engine.compare([compiles, hangs, slow], clock())
    assert [one.ratio is not None for one in found] == [True, False, True]
    assert "made too few steps to begin with" in str(found[1].failure)

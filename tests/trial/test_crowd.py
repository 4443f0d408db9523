"""Legs on a card that does not hold them all, or that they have to share while they warm up."""

import time
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest

from legs import LOOP, base_run, bench, changed, clock, written
from observing import LONG_S
from trainperf.run.stopping import Guard
from trainperf.trial import turns, warming
from trainperf.trial.crowd import ALONE, FEWER, RAN_OUT, Crowd
from trainperf.trial.legs.leg import Leg, LegFailed
from trainperf.trial.side_by_side import SideBySide

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("nothing_left")]

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


@pytest.fixture(autouse=True)
def short_slices(monkeypatch):
    monkeypatch.setattr(turns, "SLICE_S", 0.05)


def on_card(folder, most, legs=10, step=0.02):
    """The engine of a script of which the card holds so many, and what makes candidates of it."""
    script = written(folder, trains(most, step))
    run = base_run(script)

    def candidate(name, most=most, step=0.005):
        return changed(run, script, trains(most, step), name)

    return SideBySide(replace(bench(run, folder), legs=legs)), candidate


def test_who_runs_out_of_memory_beside_many_is_measured_beside_fewer(tmp_path):
    engine, candidate = on_card(tmp_path, most=4)
    with engine:
        found = engine.compare([candidate(name) for name in "abcd"], clock())
    assert [one.name for one in found] == ["a", "b", "c", "d"]
    assert [one.failure for one in found] == [""] * 4
    assert all(one.ratio.speedup > 1.5 for one in found)
    assert [one.note for one in found] == ["", "", FEWER, FEWER]


@pytest.mark.parametrize("told", [2, 10])
def test_where_two_fit_the_control_comes_first_and_then_each_candidate(tmp_path, told):
    engine, candidate = on_card(tmp_path, most=2, legs=told)
    with engine:
        found = engine.compare([candidate(name) for name in "ab"], clock())
        control = engine.baseline().control
    assert all(one.ratio.speedup > 1.5 for one in found)
    assert [one.note for one in found] == ([""] * 2 if told == 2 else [FEWER] * 2)
    assert control.pairs >= 6
    assert 0.8 < control.speedup < 1.25


def test_a_script_that_fits_but_once_is_not_compared_beside_itself(tmp_path):
    engine, candidate = on_card(tmp_path, most=1)
    with engine, pytest.raises(LegFailed, match="fails: OutOfMemoryError: CUDA out of memory"):
        engine.compare([candidate("a")], clock())


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
    assert none.failure.startswith("fails: OutOfMemoryError")
    assert small.ratio.speedup > 1.5
    assert again.ratio.speedup > 1.5


def test_who_could_not_be_tried_alone_in_time_is_late_and_did_not_fail(tmp_path):
    engine, candidate = on_card(tmp_path, most=10)
    crowd = engine._crowd
    with engine:
        crowd.to_be_alone([candidate("a")])
        (late,) = engine._alone(clock(0.0))
    assert (late.late, late.note) == (True, RAN_OUT)


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
    with SideBySide(bench(run, tmp_path)) as engine:
        one, other = engine.compare([short, at_first], clock())
    assert one.note == ALONE
    assert one.ratio.speedup > 1.5  # alone its memory is its own, and so is what it does with it
    assert other.note == ""
    assert other.ratio.speedup > 1.5


def test_a_script_that_runs_short_of_memory_beside_itself_is_not_compared_so(tmp_path):
    script = written(
        tmp_path,
        LOOP.replace(
            "    seen = training()\n",
            "    seen = training()\n    seen.retries = lambda: RETRIES[0]\n",
        )
        + "RETRIES = [0]\ndef step(number):\n    RETRIES[0] += 1\n    time.sleep(0.02)\n"
        + "train(step)\n",
    )
    run = base_run(script)
    with SideBySide(bench(run, tmp_path)) as engine, pytest.raises(LegFailed, match="ran short"):
        engine.compare(
            [changed(run, script, LOOP + "train(lambda number: time.sleep(0.02))")], clock()
        )


SHARED = (
    LOOP
    + """
from types import SimpleNamespace
from _trainperf_child.timing.legs.warm_up import WarmUp
from _trainperf_child.timing.legs.words import DEVICE, Words

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
    runs = os.path.dirname(settings["folder"])
    legs = [os.path.join(runs, one) for one in os.listdir(runs) if one.startswith("leg-")]
    return sum(bool(Words(leg)[DEVICE]) for leg in legs if os.path.exists(f"{leg}/control"))

log()
told.before_device()
log()
while that_wait() < 4:
    time.sleep(0.01)
""",
)
"""All legs wait for their device before the first of them warms up on it."""


def test_one_leg_at_a_time_warms_up_on_its_device(tmp_path, monkeypatch):
    monkeypatch.setattr(SideBySide, "_at_once", 4)
    script = written(tmp_path, MEET)
    run = base_run(script)
    fast = MEET.replace("0.02", "0.005")
    with given_devices() as given, SideBySide(bench(run, tmp_path)) as engine:
        found = engine.compare([changed(run, script, fast, name) for name in "ab"], clock())
    assert all(one.ratio is not None for one in found)
    logs = {
        leg: [float(line) for line in (tmp_path / f"log-{pid}").read_text().split()]
        for leg, pid in given.items()
    }
    assert len(logs) == 4
    _, _, first_step, *_ = logs[next(iter(given))]
    for leg, (wants, got, *steps) in logs.items():
        # What it waits for the others is none of its start, and what comes before it is.
        waits_from = leg.started_s + leg.before_device_s
        assert wants < waits_from < first_step
        assert steps[-1] < leg.started_s + leg.ready_s + leg.waited_s
        assert waits_from + leg.waited_s < got
    for (leg, steps), (later, (_, begins, *_)) in pairwise(logs.items()):
        assert steps[-1] < begins
        given_s = later.started_s + later.before_device_s + later.waited_s
        assert leg.started_s + leg.ready_s + leg.waited_s < given_s


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


def test_a_device_that_is_used_only_after_the_warm_up_is_not_waited_for(tmp_path):
    late = "if number == 60:\n        told.before_device()\n    if number < 7"
    source = SHARED.replace("\ntold.before_device()", "").replace("if number < 7", late)
    leg = Leg("", base_run(written(tmp_path, source)), tmp_path / "leg")
    until = time.monotonic() + LONG_S
    with Guard() as guard:
        try:
            warming.warm_up([leg], guard, 1, LONG_S, lambda: False)
            piece = leg.run_slice(60, 1, LONG_S, lambda: time.monotonic() > until)
        finally:
            leg.end()
    assert leg.failure == ""
    assert piece is not None


FAST = SHARED.replace("0.02", "0.005")
COMPILES = FAST.replace("told.before_device()", "told.compile_begins()").replace(
    "log()\ntrain", "time.sleep(1.5)\ntold.compile_ends()\ntrain"
)
SLEEPS = LOOP + "time.sleep(1.5)\ntrain(lambda number: time.sleep(0.005))\n"


def test_what_compiles_or_is_known_to_do_so_is_limited_by_the_budget_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(warming, "MORE_S", 0.5)
    monkeypatch.setattr(warming, "MORE_TIMES", 1.0)
    script = written(tmp_path, LOOP + "train(lambda number: time.sleep(0.02))\n")
    run = base_run(script)
    compiles = changed(run, script, COMPILES, "compiles")
    hangs = changed(run, script, SLEEPS.replace("1.5", "8"), "hangs")
    slow = replace(changed(run, script, SLEEPS, "slow"), compiles=True)
    with SideBySide(bench(run, tmp_path)) as engine:
        found = engine.compare([compiles, hangs, slow], clock())
    assert [one.ratio is not None for one in found] == [True, False, True]
    assert "made too few steps to begin with" in found[1].failure


def test_a_slow_start_that_outlasts_the_budget_did_not_fail(tmp_path):
    script = written(tmp_path, LOOP + "train(lambda number: time.sleep(0.02))\n")
    run = base_run(script)
    slow = changed(run, script, SLEEPS.replace("1.5", "30"), "slow")
    with SideBySide(bench(run, tmp_path)) as engine:
        (one,) = engine.compare([replace(slow, compiles=True)], clock(8.0))
    assert one.late


def test_room_shrinks_to_what_lived_and_never_below_two():
    def contest(name):
        leg = SimpleNamespace(name=name, short_of_memory=True)
        return SimpleNamespace(leg=leg)

    crowd = Crowd(10)
    entered = [contest("a"), contest("b")]
    candidates = {name: SimpleNamespace(name=name) for name in "ab"}
    crowd.look(entered[:1], 4)
    crowd.look(entered, 1)
    assert crowd.taken_out(entered, candidates) == [candidates["a"]]
    assert (crowd.legs, crowd.alone, entered) == (4, [candidates["b"]], [])

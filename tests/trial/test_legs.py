"""Legs that take turns: what is measured, and what survives whatever goes wrong."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import psutil
import pytest

from kit.legs import (
    LOOP,
    PLAIN,
    base_run,
    changed,
    clock,
    queue,
    repeated,
    states,
    warm_up,
    written,
)
from kit.processes import LONG_S, gone, soon
from trainperf.run.stopping import Guard
from trainperf.trial.legs.faults import LegFailed
from trainperf.trial.legs.leg import Leg

pytestmark = [pytest.mark.script, pytest.mark.timeout(300), pytest.mark.usefixtures("nothing_left")]


@pytest.fixture(autouse=True)
def no_process_stays_stopped(mark):
    yield
    assert states(mark) == []


def stopped(pids):
    """Whether all are: a process that was sent SIGSTOP stops when it is next on a core."""
    return soon(lambda: all(psutil.Process(pid).status() == psutil.STATUS_STOPPED for pid in pids))


def compared(tmp_path, source, change, seconds=40.0):
    script = written(tmp_path, source)
    run = base_run(script)
    with queue(run, tmp_path) as engine:
        (measured,) = engine.compare([changed(run, script, change)], clock(seconds))
        return measured, engine.baseline()


def test_the_users_file_stays_as_it_is_and_no_leg_leaves_anything(tmp_path):
    script = written(tmp_path, PLAIN.format(0.02))
    before = script.read_bytes(), script.stat().st_mtime_ns
    compared(tmp_path, PLAIN.format(0.02), PLAIN.format(0.01), seconds=5.0)
    assert (script.read_bytes(), script.stat().st_mtime_ns) == before
    assert list((tmp_path / "runs").iterdir()) == []


FAULTS = {
    "crashes": ("train(lambda n: 1 / (n < 20) and time.sleep(0.02))", "fails: ZeroDivisionError"),
    "crashes at once": ("raise MemoryError('no room')", "fails: MemoryError: no room"),
    "is killed": (
        "train(lambda n: os.kill(os.getpid(), 9) if n > 20 else time.sleep(0.02))",
        "was killed by SIGKILL, as when memory runs out",
    ),
    "makes no step": ("print('nothing to do')", "made no step"),
    "ends early": ("train(lambda n: time.sleep(0.02), steps=25)", "ended before it could"),
}


@pytest.mark.alone
@repeated
def test_candidates_that_fail_are_named_and_the_others_are_measured(tmp_path):
    script = written(tmp_path, PLAIN.format(0.02))
    run = base_run(script)
    bad = [changed(run, script, LOOP + source, name) for name, (source, _) in FAULTS.items()]
    good = changed(run, script, PLAIN.format(0.01), "good")
    with queue(run, tmp_path) as engine:
        *failed, fine = engine.compare([*bad, good], clock())
    for measured, (_, reason) in zip(failed, FAULTS.values(), strict=True):
        assert reason in str(measured.failure)
    assert fine.ratio is not None
    assert fine.ratio.speedup > 1.5


@pytest.mark.alone
def test_a_candidate_that_hangs_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("trainperf.trial.contest.HANG_S", 1.5)
    monkeypatch.setattr("trainperf.trial.contest.HANG_TIMES", 2.0)
    hangs = LOOP + "train(lambda n: time.sleep(60 if n > 20 else 0.02))"
    measured, _ = compared(tmp_path, PLAIN.format(0.02), hangs)
    assert re.search(r"made no .*steps in [2-9] s", str(measured.failure))


def test_a_change_that_python_never_loads_is_not_taken_for_a_trial(tmp_path):
    script = written(tmp_path, PLAIN.format(0.02))
    run = base_run(script)
    other = written(tmp_path, "unused = 1\n", "unused.py")
    with queue(run, tmp_path) as engine:
        (measured,) = engine.compare([changed(run, other, "unused = 2\n")], clock())
    assert "did not take effect" in str(measured.failure)


def test_a_leg_killed_while_it_is_stopped_is_noticed(tmp_path):
    script = written(tmp_path, PLAIN.format(0.02))
    leg = Leg("", base_run(script), tmp_path / "leg")
    with Guard() as guard:
        try:
            warm_up([leg], guard)
            assert not leg.failure
            (pid,) = leg._processes.others
            assert stopped([pid])
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(LegFailed, match="killed by SIGKILL"):
                leg.run_slice(4, 1, LONG_S, lambda: False)
        finally:
            leg.end()


def test_legs_that_were_stopped_from_outside_go_on(tmp_path):
    """The lost wake-up: stopped by us just before it would stop itself."""
    script = written(tmp_path, PLAIN.format(0.02))
    leg = Leg("", base_run(script), tmp_path / "leg")
    with Guard() as guard:
        try:
            warm_up([leg], guard)
            (pid,) = leg._processes.others
            threading.Timer(0.2, os.kill, (pid, signal.SIGSTOP)).start()
            piece = leg.run_slice(20, 1, LONG_S, lambda: False)
            assert piece is not None
            assert piece.steps == 20
        finally:
            leg.end()


@pytest.mark.skipif(shutil.which("setsid") is None, reason="no setsid here")
def test_a_launcher_that_opens_a_session_of_its_own_can_be_stopped_and_woken(tmp_path):
    run = base_run(written(tmp_path, PLAIN.format(0.02)))
    run = replace(run, command=("setsid", "--wait", *run.command))
    leg = Leg("", run, tmp_path / "leg")
    with Guard() as guard:
        try:
            warm_up([leg], guard)
            assert not leg.failure
            others = leg._processes.others
            assert stopped(others)
            assert len(others) == 2
            for _ in range(2):
                piece = leg.run_slice(4, 1, LONG_S, lambda: False)
                assert piece is not None
                assert piece.steps == 4
        finally:
            leg.end()


KILLED = """
import sys, time
from pathlib import Path
from kit.legs import base_run, changed, clock, queue
folder = Path(sys.argv[1])
script = folder / "train.py"
run = base_run(script)
with queue(run, folder) as engine:
    engine.compare([changed(run, script, script.read_text())], clock(60.0))
"""


def test_no_stopped_process_remains_after_kill_9_of_trainperf_itself(tmp_path, mark):
    written(tmp_path, PLAIN.format(0.02))
    tests = os.path.dirname(os.path.dirname(__file__))
    env = {**os.environ, "PYTHONPATH": tests}
    parent = subprocess.Popen((sys.executable, "-c", KILLED, str(tmp_path)), env=env)
    deadline = time.monotonic() + LONG_S
    while not states(mark):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + LONG_S
    while any(str(tmp_path) in command for _, command in running()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert gone(mark)  # the guard as well, which cleans up last


def running():
    for process in psutil.process_iter():
        try:
            yield process.pid, " ".join(process.cmdline())
        except psutil.Error:
            continue


FILLS = (
    LOOP
    + """
own = training().process
for _ in range(100):
    own.record.write("note", text="x" * 1000)
own.record.flush()
train(lambda number: time.sleep(0.02))
"""
)


def test_a_disk_that_is_full_ends_the_leg_and_is_named(tmp_path):
    script = written(tmp_path, PLAIN.format(0.02))
    limited = ("sh", "-c", f"ulimit -f 40; exec {sys.executable} {script}")
    run = base_run(script, command=limited)
    with queue(run, tmp_path) as engine:
        (measured,) = engine.compare([changed(run, script, FILLS)], clock())
    assert "could not be kept" in str(measured.failure)

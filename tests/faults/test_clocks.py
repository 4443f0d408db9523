"""A clock that jumps: the time of day is nothing that runs are measured or told apart by."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from kit.legs import LOOP
from kit.processes import events, observed, python, script
from trainperf.model import Ending, Run
from trainperf.run import running
from trainperf.run.spawn import prepare
from trainperf.run.sweeping import sweep

pytestmark = pytest.mark.usefixtures("nothing_left")


SHIFTS = {"a day on": 86_400.0, "a day back": -86_400.0, "a second on": 1.0}
shifts = pytest.mark.parametrize("seconds", SHIFTS.values(), ids=SHIFTS)


def set_clock(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shift what tells when processes began by the time of day, as setting that clock does."""
    whole = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda process: whole(process) + seconds)


@shifts
def test_a_run_that_goes_on_is_none_of_an_earlier_start_after_the_clock_was_set(
    tmp_path: Path, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    leg = tmp_path / "a run" / "leg-1"
    run = Run(python("train.py"), str(tmp_path), "train.py")
    prepare(run, leg)
    prepare(run, leg.parent)
    set_clock(seconds, monkeypatch)
    assert sweep(tmp_path) == []
    assert leg.exists()


@shifts
def test_a_job_that_runs_is_alive_after_the_clock_was_set(
    tmp_path: Path, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path, "import time; print('ready', flush=True); time.sleep(1000)", "train.py")
    process = subprocess.Popen(python("train.py"), cwd=tmp_path, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        job = running.read(process.pid)
        set_clock(seconds, monkeypatch)
        assert running.is_alive(job)
        assert not running.is_alive(replace(job, ticks=job.ticks - 1))
    finally:
        process.kill()
        process.communicate()
    assert not running.is_alive(job)


JUMPS = """
import random, time
days = random.Random(1)
whole = time.time
time.time = lambda: whole() + days.choice((-1e6, 1e6, 0.0))
time.time_ns = lambda: int(time.time() * 1e9)
"""
STANDS_STILL = """
import time
time.time = lambda: 1.0
time.time_ns = lambda: 10**9
"""
NEGATIVE = """
import time
time.time = lambda: -1.0
time.time_ns = lambda: -(10**9)
"""
CLOCKS = {"jumps": JUMPS, "stands still": STANDS_STILL, "is negative": NEGATIVE}


@pytest.mark.parametrize("clock", CLOCKS.values(), ids=CLOCKS)
def test_steps_are_timed_as_they_are_where_the_scripts_clock_is_another(
    tmp_path: Path, clock: str
) -> None:
    source = clock + LOOP + "train(lambda number: time.sleep(0.002), 400)\n"
    script(tmp_path, source, "train.py")
    recording = observed(python("train.py"), tmp_path, tmp_path / "run", measure_s=1.0)
    assert recording.ending in (Ending.MEASURED, Ending.FINISHED)
    steps = [one for one in events(recording, "step") if one["p"] == "real"]
    assert len(steps) >= 50
    assert all(recording.started < one["s"] <= one["t"] < recording.ended for one in steps)
    assert not [one["text"] for one in events(recording, "note")]


@pytest.mark.parametrize("frozen", ["monotonic", "perf_counter"])
def test_a_script_that_stops_the_clock_of_its_process_is_over_with_its_budget(
    tmp_path: Path, frozen: str
) -> None:
    """As libraries do that freeze the time: nothing is measured, and nothing hangs."""
    source = f"import time\ntime.{frozen} = lambda: 5.0\ntime.{frozen}_ns = lambda: 5\n"
    script(tmp_path, source + LOOP + "train(lambda number: time.sleep(0.01))\n", "train.py")
    recording = observed(python("train.py"), tmp_path, tmp_path / "run", budget_s=2.0)
    assert recording.ended - recording.started < recording.run.budget_s + 60
    assert recording.ending in (Ending.OUT_OF_BUDGET, Ending.MEASURED)

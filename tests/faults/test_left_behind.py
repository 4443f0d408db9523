"""Nothing of a run is left behind, whatever dies and however its processes hide."""

from __future__ import annotations

import json
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from kit.processes import (
    diagnose,
    gone,
    observed,
    python,
    script,
    started,
    strays,
    wait_for,
)
from trainperf.run.processes import began, machine
from trainperf.run.stopping import GUARD
from trainperf.run.sweeping import sweep

pytestmark = pytest.mark.usefixtures("nothing_left")


SLEEPS = """
import os, subprocess, tempfile, time
subprocess.Popen(["sleep", "1000"])
subprocess.Popen(["setsid", "-f", "sleep", "1000"])
tempfile.mkdtemp()
open("written", "w").close()
print("ready", flush=True)
time.sleep(1000)
"""


def guards(mark: str) -> list[psutil.Process]:
    return [one for one in strays(mark) if GUARD in one.environ()]


@pytest.mark.alone  # any other run would end it first
def test_what_people_type_does_not_end_the_guard(tmp_path: Path, mark: str) -> None:
    script(tmp_path, SLEEPS, "train.py")
    process = started(tmp_path, "--no-trials", "train.py")
    wait_for(tmp_path, "ready")
    (guard,) = guards(mark)
    assert "trainperf" not in " ".join(guard.cmdline()).replace(guard.exe(), "")
    for one in strays(mark):
        with suppress(psutil.Error):  # some end with their parent
            if "trainperf" in " ".join(one.cmdline()):
                one.kill()
    process.communicate()
    assert gone(mark)


@pytest.mark.alone
def test_the_next_run_ends_what_one_left_that_was_killed_with_its_guard(
    tmp_path: Path, mark: str
) -> None:
    script(tmp_path, SLEEPS, "train.py")
    process = started(tmp_path, "--no-trials", "train.py")
    wait_for(tmp_path, "ready")
    for one in guards(mark):
        one.kill()
    process.kill()
    process.communicate()
    stopped = [one for one in strays(mark) if "sleep" in one.cmdline()]
    for one in stopped:
        one.send_signal(signal.SIGSTOP)
    assert stopped  # there was something to be ended

    script(tmp_path, "raise SystemExit('the end')", "next.py")
    result = diagnose(tmp_path, "next.py")

    assert gone(mark)
    assert "what an earlier run had left, which was killed" in result.stderr
    assert not list(tmp_path.glob("runs/*/view"))
    again = diagnose(tmp_path, "next.py")
    assert "earlier run" not in again.stderr


def test_runs_that_go_on_and_those_of_other_machines_are_left_alone(tmp_path: Path) -> None:
    ticks = began(os.getpid())
    here = {"parent": os.getpid(), "parent_ticks": ticks, "machine": machine()}
    runs = {
        "goes on": here,
        "of another machine": {**here, "parent_ticks": ticks - 100, "machine": "another"},
        "of another version": {"parent": 1},
        "damaged": [],
        "cut short": None,
        "over": {**here, "parent_ticks": ticks - 100},
    }
    for name, settings in runs.items():
        folder = tmp_path / name / "leg-1"
        folder.mkdir(parents=True)
        for number in ("caches", "2"):  # killed before there was a run in it
            (folder.parent / f"leg-{number}" / "inner").mkdir(parents=True)
        for where in (folder, folder.parent):
            text = "" if settings is None else json.dumps(settings)
            (where / "run.json").write_text(text, encoding="utf-8")
    assert sweep(tmp_path) == [str(tmp_path / "over")]
    assert [name for name in runs if not (tmp_path / name / "leg-1").exists()] == ["over"]
    assert [path.name for path in (tmp_path / "over").iterdir()] == ["run.json"]
    assert all(len(list((tmp_path / name).iterdir())) == 4 for name in runs if name != "over")


def test_there_need_be_no_folder_of_runs(tmp_path: Path) -> None:
    assert sweep(tmp_path / "none") == []


COMPILES = """
import os, subprocess, time
place = os.environ["TMPDIR"] + "/big.c"
with open(place, "w") as file:
    for number in range(60_000):
        file.write(f"double f{number}(double x) {{ return x * {number} + {number % 7}; }} ")
subprocess.Popen(["gcc", "-O2", "-c", "-o", os.devnull, place])
time.sleep(1)
print("ready", flush=True)
time.sleep(1000)
"""


@pytest.mark.skipif(not shutil.which("gcc"), reason="there is no compiler")
def test_a_compiler_that_is_stopped_removes_its_temporary_files(tmp_path: Path) -> None:
    script(tmp_path, COMPILES, "train.py")
    observed(python("train.py"), tmp_path, tmp_path / "run", stall_s=1.5)
    folder = Path(os.environ["TMPDIR"])
    left = {path.name for path in folder.iterdir()}
    (folder / "big.c").unlink()
    assert left == {"big.c"}

"""A disk that fills in each phase of a diagnosis: said in a line, and nothing is left of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.harness import NOT_MEASURED, REFUSED, Place
from kit.legs import LOOP

MIB = 1 << 20
FILLS = """
import json, os, sys
told = json.load(open(os.environ["TRAINPERF_RUN"])) if "TRAINPERF_RUN" in os.environ else {}
CHANGED = bool(told.get("leg") and told["sources"])
UNCHANGED = bool(told.get("leg") and not told["sources"])
OBSERVED = bool(told) and not told.get("leg") and not told.get("plain")

def fill():
    with open(os.environ["FULL"] + "/filler", "wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                pass
"""


@pytest.fixture
def disk(place: Place) -> Iterator[Path]:
    """A small file system of its own that runs go to."""
    folder = place.runs
    folder.mkdir(mode=0o700)
    mount = ("mount", "-t", "tmpfs", "-o", "size=24m,mode=700", "tmpfs", str(folder))
    if os.geteuid() or not shutil.which("mount") or subprocess.run(mount).returncode:
        pytest.skip("no file system may be mounted here")
    place.env["FULL"] = str(folder)
    place.remember()
    try:
        yield folder
    finally:
        subprocess.run(("umount", str(folder)), check=True)


def fill(folder: Path, left: int = 0) -> None:
    """Leave so many bytes of a file system."""
    with (folder / "filler").open("wb", buffering=0) as file:
        found = os.statvfs(folder)
        size = found.f_bavail * found.f_frsize - left
        for start in range(0, size, MIB):
            file.write(b"x" * min(MIB, size - start))


def test_a_run_that_cannot_be_begun_is_refused_in_a_line(place: Place, disk: Path) -> None:
    place.with_script("raise SystemExit('it ran')")
    fill(disk)
    result = place.diagnose("--no-trials")
    place.check(result, REFUSED, ["cannot write to", "No space left"], shown=False)
    assert result.stdout == ""
    assert [one.name for one in disk.iterdir()] == ["filler"]


@pytest.mark.parametrize("pages", [1, 2])
def test_room_for_the_run_but_not_for_its_report(place: Place, disk: Path, pages: int) -> None:
    place.with_script("raise SystemExit('it ran')")
    fill(disk, left=pages * 4096)
    result = place.diagnose("--no-trials")
    place.check(result, REFUSED, ["diagnosis.json cannot be written: No space left"], shown=False)
    assert "ignore PYTHONPATH" not in result.stdout  # that was not it


def test_a_script_that_fills_the_disk_at_its_start_is_told_of_that(
    place: Place, disk: Path
) -> None:
    place.with_script(FILLS + "fill()\nprint('the end')\n")
    result = place.diagnose("--no-trials")
    place.check(result, REFUSED, ["cannot be written: No space left on device"], shown=False)


def test_a_disk_that_is_full_while_steps_are_timed_ends_the_run(place: Place, disk: Path) -> None:
    step = "lambda number: fill() if number == 300 else time.sleep(0.002)"
    place.with_script(FILLS + LOOP + f"train({step})\n")
    result = place.diagnose("--no-trials")
    says = ["no more events could be recorded (No space left on device)", "diagnosis.json cannot"]
    place.check(result, REFUSED, says, shown=False)


def test_what_a_script_writes_goes_to_that_disk_and_it_is_told_when_it_is_full(
    place: Place, disk: Path
) -> None:
    place.with_script("open('large', 'wb').write(b'x' * (64 << 20))")
    result = place.diagnose("--no-trials")
    place.check(result, NOT_MEASURED, ["No space left on device", "--output-dir"], shown=True)
    assert not (place.home / "large").exists()


@pytest.mark.parametrize("option", ["--json", "--output-format"])
def test_an_output_that_does_not_fit_is_told_after_the_report(
    place: Place, disk: Path, tmp_path: Path, option: str
) -> None:
    place.with_script("raise SystemExit('the end')")
    fill(disk)
    place.runs = tmp_path / "other"
    target = str(disk / "output")
    given = f"html={target}.html" if option == "--output-format" else target
    result = place.diagnose("--no-trials", option, given)
    place.check(result, REFUSED, [f"{target}", "No space left on device"])
    assert "the end" in result.stdout
    assert [one.name for one in disk.iterdir()] == ["filler"]

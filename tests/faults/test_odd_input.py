"""No script, no folder, no setting: refused in a line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kit.processes import trainperf
from trainperf.patch.apply import Change
from trainperf.patch.fix import Kept

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.mark.parametrize("command", ["diagnose", "check --save-baseline b.json", "lint"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, command: str) -> None:
    os.mkfifo(tmp_path / "train.py")
    result = trainperf(tmp_path, *command.split(), "train.py")
    assert result.returncode == 2
    assert "no regular file" in result.stdout + result.stderr


def test_a_folder_that_was_removed_is_named(tmp_path: Path) -> None:
    shell = f"mkdir gone && cd gone && rmdir ../gone && exec {sys.executable} -m trainperf doctor"
    result = subprocess.run(("sh", "-c", shell), cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr.startswith("trainperf: the working directory is no longer there\n")


def test_a_link_that_was_planted_for_a_part_of_a_list_is_not_followed(tmp_path: Path) -> None:
    victim, source = tmp_path / "victim", tmp_path / "train.py"
    victim.write_text("mine")
    source.write_text("x = 1\n")
    report = tmp_path / "report.json"
    (tmp_path / f".report.applied.json.{os.getpid()}.part").symlink_to(victim)
    kept = Kept.of(report)
    kept.keep([Change(str(source), "train.py", b"x = 1\n", b"x = 1\n", b"x = 2\n")], ("a_fix",))
    assert victim.read_text() == "mine"
    assert not (tmp_path / "report.applied.json").is_symlink()
    assert Kept.of(report).applied.fixes == ("a_fix",)

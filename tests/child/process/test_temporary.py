"""Files a script would remove at its exit are removed where it is stopped before."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from trainperf.model import Run
from trainperf.run.launch import launch

MAKES = """
import os, sys, tempfile
folder = tempfile.mkdtemp()
open(folder + "/assets", "w").close()
file, name = tempfile.mkstemp()
kept = tempfile.mkdtemp(dir=sys.argv[1])
scratch = tempfile.TemporaryDirectory(dir=sys.argv[1])
{end}
"""
STOPPED = """
import gc
next(one for one in gc.get_objects() if type(one).__name__ == "Process").finish()
"""


@pytest.mark.parametrize(("end", "left"), [(STOPPED, 0), ("", 2)])
def test_what_was_made_for_a_save_is_removed_where_the_process_was_stopped_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, left: int
) -> None:
    script = tmp_path / "train.py"
    script.write_text(MAKES.format(end=end))
    temporary, own = tmp_path / "temporary", tmp_path / "own"
    temporary.mkdir()
    own.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    run = Run((sys.executable, str(script), str(own)), str(tmp_path), "train.py")

    launch(run, tmp_path / "run")

    assert len(list(temporary.iterdir())) == left
    assert len(list(own.iterdir())) == 1

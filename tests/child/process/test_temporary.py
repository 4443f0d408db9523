"""Files a script would remove at its exit are removed where it is stopped before."""

from __future__ import annotations

import sys
from pathlib import Path

from trainperf.model import Ending, Run
from trainperf.run.launch import launch

SCRIPT = """
import tempfile, time, sys
kept = tempfile.mkdtemp(dir=sys.argv[1])
folder = tempfile.TemporaryDirectory(dir=sys.argv[1])
gone = tempfile.TemporaryDirectory(dir=sys.argv[1])
gone.cleanup()
open(folder.name + "/file", "w").close()
import gc
process = next(one for one in gc.get_objects() if type(one).__name__ == "Process")
process.finish()
"""


def test_temporary_folders_of_a_script_that_is_stopped_are_removed(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    where = tmp_path / "temporary"
    where.mkdir()
    run = Run((sys.executable, str(script), str(where)), str(tmp_path), "train.py")

    recording = launch(run, tmp_path / "run")

    assert recording.ending is Ending.MEASURED
    left = list(where.iterdir())
    assert len(left) == 1  # mkdtemp is the script's own to remove
    assert not list(left[0].iterdir())

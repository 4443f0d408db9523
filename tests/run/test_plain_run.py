"""Whole scripts run plainly; those here need no framework."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kit.processes import LONG_S, python, script
from trainperf.model import Leg, Run
from trainperf.run.launch import Finished, run_to_its_end

pytestmark = [pytest.mark.script, pytest.mark.usefixtures("nothing_left")]


def finished(folder: Path, source: str, limit_s: float = LONG_S, **settings: Any) -> Finished:
    script(folder, source)
    run = Run(python("script.py"), str(folder), "script.py", **settings)
    return run_to_its_end(run, folder / "run", limit_s, lambda: False)


def test_a_script_that_ends_has_its_seconds_its_status_and_the_last_it_printed(
    tmp_path: Path,
) -> None:
    found = finished(tmp_path, "import sys, time; time.sleep(0.3); print('bye'); sys.exit(3)")
    assert found.seconds is not None
    assert found.seconds > 0.3
    assert (found.status, found.tail) == (3, "bye\n")


def test_sources_are_laid_over_and_the_users_file_stays(tmp_path: Path) -> None:
    sources = {str(tmp_path / "script.py"): b"print('changed')\n"}
    assert finished(tmp_path, "print('as it is')\n", sources=sources).tail == "changed\n"
    assert finished(tmp_path, "print('as it is')\n").tail == "as it is\n"


def test_one_that_goes_on_is_stopped_with_all_that_it_started(tmp_path: Path) -> None:
    source = "import subprocess; subprocess.Popen(['sleep', '1000']).wait()"
    assert finished(tmp_path, source, limit_s=0.5).seconds is None


def test_nothing_is_observed_in_it_even_where_legs_are(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("__version__ = '2.13'\n")
    found = finished(tmp_path, "import torch\nprint(torch.__version__)\n", leg=Leg(6))
    assert (found.status, found.tail) == (0, "2.13\n")
    events = [
        json.loads(line)["e"]
        for file in (tmp_path / "run").glob("events-*")
        for line in file.read_text().splitlines()
    ]
    assert set(events) <= {"hello"}


def test_a_notebook_runs_as_the_code_of_its_cells(tmp_path: Path) -> None:
    sources = ("!exit 7\n%env N=5", "import os\ndisplay(os.environ['N'], get_ipython())\n1 / 0")
    cells = [{"cell_type": "code", "source": one} for one in sources]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells}))
    run = Run(python("a.ipynb"), str(tmp_path), "a.ipynb", plain=True)
    found = run_to_its_end(run, tmp_path / "run", LONG_S, lambda: False)
    assert found.status == 1
    assert found.tail.startswith("5\nNone\n")
    assert 'a.ipynb", cell 2, line 3, in <module>\n    1 / 0' in found.tail
    assert "1 / 0" in (tmp_path / "a.ipynb").read_text()

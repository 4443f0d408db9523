"""A notebook as tutorials have it, diagnosed, repaired, and run again."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kit.processes import LONG_S, patient, python
from trainperf.model import Run
from trainperf.run.launch import run_to_its_end

pytestmark = [pytest.mark.alone, pytest.mark.long, pytest.mark.usefixtures("nothing_left")]

NOTEBOOKS = Path(__file__).parent / "notebooks"
WORKERS = "torch_workers"


def trainperf(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-m", "trainperf", *words),
        cwd=folder, env=patient(), capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.timeout(600)
def test_a_tutorial_is_diagnosed_repaired_and_runs_again(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = tmp_path / "book"
    folder.mkdir()
    book = folder / "torch_tutorial.ipynb"
    shutil.copy(NOTEBOOKS / book.name, book)
    before = json.loads(book.read_text())
    asked = ("--budget", "120s", "--only", WORKERS, "--json", "report.json", "--patch", "fix.diff")
    done = trainperf(
        tmp_path, "diagnose", "--full", *asked, "--output-dir", "runs", f"book/{book.name}"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["evidence"]["loop"]["where"]["line"] == 5004
    assert "cell 5, line 4" in done.stdout
    assert "`!pip install -q torchvision` (cell 1)" in done.stderr
    assert WORKERS in [one["fix"] for one in report["trials"] if one["kept"]], report["trials"]
    diff = (tmp_path / "fix.diff").read_bytes()
    subprocess.run(("git", "apply", "--check", "-"), cwd=folder, input=diff, check=True)
    (run,) = (tmp_path / "runs").iterdir()
    fixed = trainperf(tmp_path, "fix", str(run))
    assert fixed.returncode == 0, fixed.stderr
    after = json.loads(book.read_text())
    changed = [
        number
        for number, (one, other) in enumerate(zip(before["cells"], after["cells"], strict=True))
        if one != other
    ]
    assert changed == [4]  # the cell with the DataLoader; the outputs of all are as they were
    assert "num_workers=" in "".join(after["cells"][4]["source"])
    plain = Run(python(book.name), str(folder), book.name, plain=True)
    ended = run_to_its_end(plain, tmp_path / "again", LONG_S, lambda: False)
    assert (ended.status, "epoch 3" in ended.tail) == (0, True), ended.tail


@pytest.mark.timeout(600)
def test_a_guide_of_keras_is_read_to_its_call_of_fit(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    shutil.copy(NOTEBOOKS / "keras_guide.ipynb", tmp_path)
    asked = ("--budget", "90s", "--no-trials", "--json", "report.json", "--output-dir", "runs")
    done = trainperf(tmp_path, "diagnose", *asked, "keras_guide.ipynb")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["evidence"]["loop"]["where"]["line"] == 5001
    (eager,) = [one for one in report["findings"] if one["id"] == "keras_run_eagerly"]
    assert eager["where"][0]["line"] // 1000 == 4
    assert report["notes"] == [] or all("left out" not in one for one in report["notes"])

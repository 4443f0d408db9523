"""`trainperf try` and `check` on a real script: a planted gain or loss, a failure, a revision."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kit.processes import script, tries
from run.test_view import needs_view

pytestmark = [pytest.mark.script, pytest.mark.long, pytest.mark.usefixtures("nothing_left")]

SOURCE = """
import time
import torch
from work import busy

torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Linear(64, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(20_000, 64)
data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
loader = torch.utils.data.DataLoader(data, batch_size=32)
seconds = float(open("seconds.txt").read())
for epoch in range(1000):
    for features, target in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(features), target).backward()
        optimizer.step()
        busy(seconds)
"""
WORK = """import time


def busy(seconds):
    time.sleep(seconds)
"""
FASTER = WORK.replace("time.sleep(seconds)", "time.sleep(seconds / 2)")
BROKEN = WORK.replace("time.sleep(seconds)", "raise ValueError('no such luck')")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    script(folder, SOURCE, "train.py")
    (folder / "work.py").write_text(WORK)
    (folder / "seconds.txt").write_text("0.02\n")
    return folder


def trainperf(project: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        (sys.executable, "-m", "trainperf", *words, "--", "train.py"),
        cwd=project,
        env={**os.environ, "TRAINPERF_OUTPUT_DIR": str(project.parent / "runs"), "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    return done.returncode, done.stdout + done.stderr


def other(project: Path, text: str) -> tuple[str, str]:
    """The options that try another `work.py`, as a diff."""
    (project.parent / "work.py").write_text(text)
    words = ("diff", "--no-index", "--no-prefix", "work.py", "../work.py")
    done = subprocess.run(("git", *words), cwd=project, capture_output=True, text=True)
    path = project.parent / "change.diff"
    path.write_text(done.stdout.replace("+++ ../work.py", "+++ work.py"))
    return "--diff", str(path)


def names(project: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in project.iterdir() if path.is_file()}


@pytest.mark.alone
@pytest.mark.sentinel
@pytest.mark.timeout(600)
def test_a_planted_gain_is_proved_and_no_file_is_changed(project: Path) -> None:
    before, report = names(project), project.parent / "report.json"
    change = other(project, FASTER)
    for _ in tries("a planted gain", 3):
        words = ("try", "-q", "--budget", "90s", "--json", str(report), *change)
        status, output = trainperf(project, *words)
        if status == 0:
            break
    assert status == 0, output
    assert output.startswith("Faster and trains the same: 1.")
    (proof,) = json.loads(report.read_text())["proofs"]
    assert (proof["answer"], proof["proven"], proof["same_training"]) == ("faster", True, True)
    assert 1.6 < proof["speedup"] < 2.0
    assert names(project) == before


@pytest.mark.alone
@pytest.mark.timeout(600)
def test_a_training_that_ends_by_itself_is_compared_by_whole_runs(project: Path) -> None:
    loop = "for features, target in zip(x[:1600].split(32), x[:1600].sum(1, True).split(32)):"
    short = SOURCE.replace("for features, target in loader:", loop).replace("1000", "1")
    script(project, f"{short}print('loss: 0.25')\n", "train.py")
    (project / "seconds.txt").write_text("0.06\n")
    report = project.parent / "report.json"
    for _ in tries("a short training", 3):
        words = ("try", "-q", "--json", str(report), *other(project, FASTER))
        status, output = trainperf(project, *words)
        if status == 0:
            break
    assert status == 0, output
    assert output.startswith("Faster and trains the same: 1.")
    told = json.loads(report.read_text())
    (trial,) = told["trials"]
    assert (trial["basis"], trial["pairs"], trial["steps"]) == ("whole runs", 2, 0)
    as_it_is, changed, *_ = told["training"]["runs"]
    assert as_it_is - changed == pytest.approx(50 * 0.03, rel=0.4)


@pytest.mark.sentinel
@pytest.mark.timeout(300)
def test_a_change_that_fails_and_one_that_is_never_run(project: Path) -> None:
    status, output = trainperf(project, "try", "-q", *other(project, BROKEN))
    assert status == 3
    assert output.startswith("With the change the script fails: ValueError: no such luck.")
    (project / "unused.py").write_text("x = 1\n")
    diff = "--- unused.py\n+++ unused.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
    (project.parent / "unused.diff").write_text(diff)
    status, output = trainperf(project, "try", "-q", "--diff", "../unused.diff")
    assert status == 2
    assert "never reaches the training, which does not run unused.py" in output


@pytest.mark.alone
@needs_view
@pytest.mark.timeout(600)
def test_a_slower_tree_is_found_by_the_file_that_makes_it_slower(project: Path) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "one")):
        subprocess.run(("git", *words), cwd=project, check=True)
    status, output = trainperf(project, "check", "-q", "--against", "HEAD")
    assert (status, "no file differs from HEAD" in output) == (0, True)
    (project / "seconds.txt").write_text("0.03\n")
    for _ in tries("a slower tree", 3):
        words = ("check", "-q", "--budget", "90s", "--against", "HEAD")
        status, output = trainperf(project, *words)
        if status == 1:
            break
    assert status == 1, output
    assert "check failed: slower: " in output
    assert (project / "seconds.txt").read_text() == "0.03\n"


@pytest.mark.alone
@pytest.mark.timeout(900)
def test_a_planted_tenth_is_caught_and_the_unchanged_script_passes(project: Path) -> None:
    def check(*words: str) -> tuple[int, str]:
        return trainperf(project, "check", "-q", *words)

    status, output = check("--save-baseline", "base.json")
    assert status == 0, output
    status, output = check("--baseline", "base.json")
    assert status == 0, output
    assert "check failed" not in output
    (project / "seconds.txt").write_text("0.0224\n")
    for _ in tries("a planted tenth", 3):
        status, output = check("--baseline", "base.json")
        assert "check passed" not in output
        if status == 1:
            break
    assert status == 1, output
    assert "check failed: slower" in output
    (project / "work.py").write_text(BROKEN)
    status, output = check("--baseline", "base.json")
    assert status == 3
    assert "no such luck" in output
    assert "check passed" not in output

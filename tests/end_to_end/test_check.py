"""`trainperf check` on a real script: unchanged it passes, a planted regression fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kit.processes import script, tries

pytestmark = [pytest.mark.alone, pytest.mark.long, pytest.mark.usefixtures("nothing_left")]

SOURCE = """
import os
import torch

torch.set_num_threads(1)
torch.manual_seed(0)
ballast = torch.randn(160, 160)
model = torch.nn.Linear(64, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(20_000, 64)
data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
loader = torch.utils.data.DataLoader(data, batch_size=32)
for epoch in range(1000):
    for features, target in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(features), target).backward()
        optimizer.step()
        with torch.no_grad():
            for _ in range(int(os.environ.get("UNITS", "50"))):
                ballast @ ballast
"""


def check(cwd: Path, *words: str, units: int = 50) -> tuple[int, str]:
    done = subprocess.run(
        (sys.executable, "-m", "trainperf", "check", "-q", *words, "train.py"),
        cwd=cwd,
        env={
            **os.environ,
            "UNITS": str(units),
            "OMP_NUM_THREADS": "1",
            "TRAINPERF_OUTPUT_DIR": str(cwd / "runs"),
        },
        capture_output=True,
        text=True,
        timeout=240,
    )
    return done.returncode, done.stdout + done.stderr


TRIES = 3
"""Neighbours may leave a tenth undecided in one check; they do not in three."""


@pytest.mark.timeout(900)
def test_a_planted_tenth_is_caught_and_the_unchanged_script_passes(tmp_path: Path) -> None:
    script(tmp_path, SOURCE, "train.py")
    status, output = check(tmp_path, "--save-baseline", "base.json")
    assert status == 0, output
    for _ in range(3):
        status, output = check(tmp_path, "--baseline", "base.json")
        assert status == 0, output
        assert "check failed" not in output
    for _ in tries("a planted tenth", TRIES):
        status, output = check(tmp_path, "--baseline", "base.json", units=56)
        assert "check passed" not in output
        if status == 1:
            break
    assert status == 1, output
    assert "check failed: slower" in output


@pytest.mark.timeout(300)
def test_a_script_that_raises_is_no_regression(tmp_path: Path) -> None:
    script(tmp_path, SOURCE, "train.py")
    status, output = check(tmp_path, "--save-baseline", "base.json", "--budget", "30s")
    assert status == 0, output
    script(tmp_path, "raise ValueError('no data')", "train.py")
    status, output = check(tmp_path, "--baseline", "base.json")
    assert status == 3
    assert "no data" in output
    assert "check passed" not in output

"""A job that runs is diagnosed by its pid: it goes on, and no secret is printed or written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kit.processes import script

pytest.importorskip("torch")

pytestmark = [pytest.mark.alone, pytest.mark.long, pytest.mark.usefixtures("nothing_left")]

OF_JOB = {"TOKEN": "VeryMuchASecret", "AWS_SECRET_ACCESS_KEY": "VerySecretKey"}
OF_DIAGNOSIS = {
    "AWS_ACCESS_KEY_ID": "AKIAVERYSECRETID",
    "AWS_SECRET_ACCESS_KEY": "AnotherSecretKey",
    "AWS_SESSION_TOKEN": "VerySecretToken",
    "WANDB_API_KEY": "VerySecretWandb",
    "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
}
FORMATS = ("json", "markdown", "html", "sarif", "terminal")
TRAINING = """
import os, sys
import torch

assert len(os.environ["TOKEN"]) == 15
assert sys.argv[1:] == ["--lr", "1e-3"]
torch.set_num_threads(1)
data = torch.utils.data.TensorDataset(torch.randn(512, 64))
model = torch.nn.Linear(64, 8)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
PATH = "s3://bucket-of-mine/train/a.bin"
loader = torch.utils.data.DataLoader(data, batch_size=32, num_workers=1)
epoch = 0
while not os.path.exists("enough"):
    for (x,) in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
    with open("epochs", "w") as file:
        file.write(str(epoch))
    if epoch == 1:
        print("trains", flush=True)
    epoch += 1
"""


def test_the_same_is_diagnosed_beside_a_job_that_goes_on(tmp_path: Path) -> None:
    script(tmp_path, TRAINING, "train.py")
    job = subprocess.Popen(
        [sys.executable, "train.py", "--lr", "1e-3"],
        cwd=tmp_path,
        env={**os.environ, **OF_JOB, "OMP_NUM_THREADS": "1",
             "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "compiled")},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert job.stdout is not None
    assert job.stdout.readline() == "trains\n"
    before = int((tmp_path / "epochs").read_text())

    outputs = [
        word
        for name in FORMATS
        for word in ("--output-format", f"{name}={tmp_path / 'out'}.{name}")
    ]
    ran = subprocess.run(
        [sys.executable, "-m", "trainperf", "diagnose", "--no-trials", "--budget", "40s",
         "--output-dir", str(tmp_path / "runs"), *outputs,
         "--pid", str(job.pid)],
        cwd="/", env={**os.environ, **OF_DIAGNOSIS, "COLUMNS": "500"},
        capture_output=True, text=True, timeout=180,
    )  # fmt: skip

    assert ran.returncode == 0, ran.stderr
    assert f"cd {tmp_path} && {sys.executable} train.py --lr 1e-3" in ran.stderr
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["cwd"] == str(tmp_path)
    assert found["running"]["pid"] == job.pid
    assert not found["running"]["ended"]
    assert found["running"]["cores"] > 0
    assert job.poll() is None
    (tmp_path / "enough").touch()
    assert job.wait(60) == 0  # it went on, and ends as it does by itself
    job.stdout.close()
    assert int((tmp_path / "epochs").read_text()) > before
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".py"]
    assert len([path for path in written if path.name.startswith("out.")]) == len(FORMATS)
    assert any("bucket-of-mine" in path.read_text() for path in written if path.suffix == ".json")
    for secret in (*OF_JOB.values(), *list(OF_DIAGNOSIS.values())[:-1]):
        assert secret not in ran.stdout + ran.stderr
        assert [path for path in written if secret.encode() in path.read_bytes()] == []

"""Secrets of the environment stand in nothing that is printed or written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kit.processes import script

pytestmark = [pytest.mark.alone, pytest.mark.long, pytest.mark.usefixtures("nothing_left")]

SECRETS = {
    "AWS_ACCESS_KEY_ID": "AKIAVERYSECRETID",
    "AWS_SECRET_ACCESS_KEY": "VerySecretKey",
    "AWS_SESSION_TOKEN": "VerySecretToken",
    "WANDB_API_KEY": "VerySecretWandb",
}
FORMATS = ("json", "markdown", "html", "sarif", "terminal")

TRAINING = """
import torch
torch.set_num_threads(1)

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, index):
        with open(f"{index % 8}.bin", "rb") as file:
            return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).float()

model = torch.nn.Linear(64, 8)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
PATH = "s3://bucket-of-mine/train/a.bin"
for epoch in range(10_000):
    for batch in torch.utils.data.DataLoader(Data(), batch_size=32):
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()
"""


def test_no_key_stands_in_a_report_or_a_record(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script(tmp_path, TRAINING, "train.py")
    for number in range(8):
        (tmp_path / f"{number}.bin").write_bytes(os.urandom(64))
    outputs = [
        word
        for name in FORMATS
        for word in ("--output-format", f"{name}={tmp_path / 'out'}.{name}")
    ]

    ran = subprocess.run(
        [sys.executable, "-m", "trainperf", "diagnose", "--no-trials", "--budget", "40s",
         "--output-dir", str(tmp_path / "runs"), *outputs, "train.py"],
        cwd=tmp_path,
        env={**os.environ, **SECRETS, "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
             "AWS_EC2_METADATA_DISABLED": "true", "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=180,
    )  # fmt: skip

    assert ran.returncode == 0, ran.stderr
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len([path for path in written if path.name.startswith("out.")]) == len(FORMATS)
    assert any("bucket-of-mine" in path.read_text() for path in written if path.suffix == ".json")
    for secret in SECRETS.values():
        assert secret not in ran.stdout + ran.stderr
        assert [path for path in written if secret.encode() in path.read_bytes()] == []

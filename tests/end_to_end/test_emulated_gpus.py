"""Whole diagnoses of a script on one of three emulated GPUs, which NVML counts in another order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kit.processes import reported
from kit.stubs import build_nvml_stub, stub_environment

pytest.importorskip("torch")

pytestmark = [pytest.mark.alone, pytest.mark.long, pytest.mark.usefixtures("nothing_left")]

TESTS = Path(__file__).parents[1]

SCRIPT = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
import torch
from emulation import fake_cuda

cuda = fake_cuda.install(devices=3)
cuda.used.add(1)  # its tensors lie on the second one
held = {{1: {{"allocated_bytes.all.peak": 8 << 20}}}}
torch.cuda.memory_stats = lambda device=None: held.get(device, {{}})

data = torch.utils.data.TensorDataset(torch.randn(4000, 32), torch.randn(4000, 32))
model = torch.nn.Linear(32, 32)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(100):
    for x, y in torch.utils.data.DataLoader(data, batch_size=8):
        loss = ((model(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        cuda.launch(0.020, 1)
"""


def diagnosed(tmp_path: Path, **settings: object) -> dict[str, Any]:
    """The report of a run beside an NVML of three GPUs, of which its GPU 2 is CUDA's 1."""
    (tmp_path / "train.py").write_text(SCRIPT)
    stub = build_nvml_stub(tmp_path / "stub")
    settings = {"GPUS": 3, "ORDER": "2,0,1", "NAME": "Emulated device", "PROCESSES": 0} | settings
    words = ("--no-trials", "--budget", "60s", "train.py")
    return reported(tmp_path, *words, env=stub_environment(stub, **settings))


def findings(report: dict[str, Any]) -> list[str]:
    return [finding["id"] for finding in report["findings"]]


@pytest.mark.timeout(300)
def test_one_gpu_of_three_is_used_while_others_have_the_rest(tmp_path: Path) -> None:
    report = diagnosed(tmp_path, WAVE="0.2:0.9:0.2", COMPUTE_MODE=3)
    assert "one_gpu_of_many" not in findings(report)
    used = [one for one in report["evidence"]["device"]["gpus"] if one["used"]]
    assert [(one["number"], one["index"]) for one in used] == [(1, 2)]
    assert {one["compute_mode"] for one in report["evidence"]["machine"]["gpus"]} == {"exclusive"}


@pytest.mark.timeout(300)
def test_one_gpu_of_three_is_a_finding_where_the_others_are_idle(tmp_path: Path) -> None:
    report = diagnosed(tmp_path, WAVE="0.2:0.0:0.2")
    (found,) = [one for one in report["findings"] if one["id"] == "one_gpu_of_many"]
    assert found["bound"] == pytest.approx(3.0)
    assert "2 did nothing" in found["text"]


@pytest.mark.timeout(300)
def test_without_permission_to_ask_nvml_cuda_tells_what_it_knows(tmp_path: Path) -> None:
    report = diagnosed(tmp_path, ERRORS="nvmlInitWithFlags=4")
    assert report["evidence"]["machine"]["gpus"] == []
    assert "may not ask the NVIDIA driver" in report["evidence"]["machine"]["gpu_reason"]
    assert "one_gpu_of_many" in findings(report)
    (used,) = [one for one in report["evidence"]["device"]["gpus"] if one["used"]]
    assert (used["index"], used["compute_capability"]) == (None, "9.0")
    assert "seconds" in report["evidence"]["times"]["real"]


@pytest.mark.timeout(300)
def test_a_gpu_that_is_gone_in_the_middle_leaves_what_was_measured(tmp_path: Path) -> None:
    report = diagnosed(tmp_path, LOST="2:30")
    assert "seconds" in report["evidence"]["times"]["real"]
    (note,) = [one for one in report["notes"] if "GPU 2" in one]
    assert "no more samples after" in note

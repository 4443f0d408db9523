"""The start in the container, in a folder that stands for /opt/ml."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from trainperf.sagemaker import start

SCRIPT = ["train.py", "--epochs", "1"]
PLAN: dict[str, Any] = {
    "script": "train.py",
    "arguments": SCRIPT[1:],
    "install": "trainperf==1",
    "torchrun": False,
}


@pytest.fixture
def ml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The container's folders, with the source brought in and start.py beside it."""
    for name in ("SM_HOSTS", "SM_CURRENT_HOST", "SM_CHANNEL_TRAIN_DATA"):
        monkeypatch.delenv(name, raising=False)
    brought = tmp_path / "input/data/trainperf"
    brought.mkdir(parents=True)
    with tarfile.open(brought / "source.tar.gz", "w:gz") as tar:
        for name in ("train.py", "package/model.py", "requirements.txt"):
            info = tarfile.TarInfo(name)
            tar.addfile(info, io.BytesIO())
    (brought / "plan.json").write_text(json.dumps(PLAN))
    shutil.copy(start.__file__, brought / "start.py")
    monkeypatch.setattr(start, "__file__", str(brought / "start.py"))
    config = tmp_path / "input/config"
    config.mkdir()
    (config / "inputdataconfig.json").write_text(json.dumps({"train-data": {}, "trainperf": {}}))
    return tmp_path


class Ran:
    """Stands for what `subprocess.run` would start."""

    def __init__(self, ml: Path, status: int = 0, report: bool = True) -> None:
        self.commands: list[list[str]] = []
        self.environment: dict[str, str] = {}
        self._ml, self._status, self._report = ml, status, report

    def __call__(self, command: list[str], **options: Any) -> Any:
        self.commands.append(command)
        if "pip" in command:
            return subprocess.CompletedProcess(command, 0)
        self.environment = options["env"]
        if self._report:
            (self._ml / "output/data/trainperf/diagnosis.json").write_text("{}")
        return subprocess.CompletedProcess(command, self._status)


def test_it_needs_nothing_but_the_standard_library(ml: Path) -> None:
    """Run as the image's python3 would: alone, isolated, and failing before anything is made."""
    (ml / "input/data/trainperf/plan.json").unlink()
    ran = subprocess.run(
        [sys.executable, "-I", "-S", str(ml / "input/data/trainperf/start.py")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "FileNotFoundError" in ran.stderr
    assert "plan.json" in ran.stderr


def test_the_source_is_unpacked_trainperf_installed_and_the_script_diagnosed(
    ml: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = Ran(ml)
    monkeypatch.setattr(start.subprocess, "run", ran)
    assert start.main(ml) == 0
    own, requirements, diagnose = ran.commands
    assert own[-1] == "trainperf==1"
    assert requirements[-2:] == ["-r", str(ml / "code/requirements.txt")]
    assert (ml / "code/package/model.py").is_file()
    assert diagnose[:4] == [sys.executable, "-m", "trainperf", "diagnose"]
    assert diagnose[-3:] == SCRIPT
    assert str(ml / "output/data/trainperf/diagnosis.json") in diagnose
    assert ran.environment["SM_CHANNEL_TRAIN_DATA"] == str(ml / "input/data/train-data")


def test_without_a_report_the_job_fails_and_says_why(
    ml: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(start.subprocess, "run", Ran(ml, status=2, report=False))
    assert start.main(ml) == 2
    assert "left no report" in (ml / "output/failure").read_text()
    assert "left no report" in capsys.readouterr().err


def test_on_several_hosts_each_leaves_a_record(ml: Path) -> None:
    command = start.diagnosing(PLAN, ml, ["algo-1", "algo-2"], 4)
    assert command[-5:] == ["--run-dir", str(ml / "job"), *SCRIPT]
    assert "--json" not in command


def test_torchrun_is_given_a_rank_for_each_gpu_and_the_first_host_to_meet_at(ml: Path) -> None:
    plan = PLAN | {"torchrun": True}
    alone = start.diagnosing(plan, ml, ["algo-1"], 0)
    assert alone[alone.index("--") :] == [
        "--", "torchrun", "--nproc_per_node=1", "--standalone", *SCRIPT
    ]  # fmt: skip
    two = start.diagnosing(plan, ml, ["algo-2", "algo-1"], 8)
    assert two[two.index("--") + 1 : -3] == [
        "torchrun", "--nproc_per_node=8", "--nnodes=2", "--rdzv-backend=c10d",
        "--rdzv-endpoint=algo-1:29400", "--rdzv-id=trainperf",
    ]  # fmt: skip

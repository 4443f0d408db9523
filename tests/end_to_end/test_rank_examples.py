"""Diagnoses of the examples that train on several devices or in several processes."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kit.processes import drop_inductor_cache, patient, tries
from trainperf.model.reported_parallel import ReportedParallel, ReportedRank

pytestmark = [pytest.mark.alone, pytest.mark.long, pytest.mark.usefixtures("nothing_left")]

EXAMPLES = Path(__file__).parents[2] / "examples"
TWO = ("--", sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")

TRIES = 3
"""A neighbour's burst may hide a cause in one run; it does not hide it in three."""

Report = dict[str, Any]


def _exchange(report: Report) -> str:
    """The exchange of gradients is what the step is bound by."""
    exchange = report["parallel"]["exchange"]
    if "exchange of gradients" not in report["verdict"]["text"]:
        return "expected the exchange in the verdict"
    if not 0 < exchange["low_s"] <= exchange["seconds_per_step"] <= exchange["high_s"]:
        return f"expected a cost beyond the noise: {exchange}"
    return "" if exchange["bytes"] > 2**20 else f"expected MiBs of gradients: {exchange}"


def _input_of_rank_1(report: Report) -> str:
    """Rank 1 is waited for, and its input is why."""
    late = report["parallel"]["stragglers"]
    if [(one["rank"], one["phase"]) for one in late] != [(1, "input")]:
        return f"expected rank 1 for its input: {late}"
    if not late[0]["cause"].startswith("its input takes"):
        return f"expected the cause in words: {late}"
    named = "waiting for rank 1" in report["verdict"]["text"]
    named = named and late[0]["cause"] in report["verdict"]["text"]
    return "" if named else "expected rank 1 and its input in the verdict"


def _computing(report: Report) -> str:
    """Neither an exchange nor a rank is waited for."""
    late = report["parallel"]["stragglers"]
    return f"expected no straggler: {late}" if late else ""


def _no_sync_is_kept(report: Report) -> str:
    """The trial of `no_sync` on the whole job made it faster, with the same losses."""
    tried = {trial["fix"]: trial for trial in report["trials"]}
    trial = tried.get("torch_ddp_no_sync")
    if trial is None or not trial["kept"]:
        return f"expected torch_ddp_no_sync to be kept: {trial or list(tried)}"
    if report["patch"]["findings"][:1] != ["torch_ddp_no_sync"]:
        return f"expected it first in the patch: {report['patch']['findings']}"
    return _exchange(report)


@dataclass(frozen=True)
class Said:
    """The answer on a script that trains as so many ranks or replicas."""

    script: str
    bottleneck: str
    wrong: Callable[[Report], str]
    launcher: tuple[str, ...] = TWO
    ranks: int = 2
    replicas: int = 2
    trials: bool = False


CASES = [
    Said("mirrored_rnn.py", "sync", _exchange, (), 1, 2),
    Said("ddp_large_gradients.py", "sync", _exchange),
    Said("ddp_accumulation.py", "sync", _no_sync_is_kept, trials=True),
    Said("ddp_compute_bound.py", "none|model", _computing),
    Said("ddp_straggler.py", "sync", _input_of_rank_1),
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.script.removesuffix(".py"))
def test_what_a_job_of_several_devices_waits_for_is_named(case: Said, tmp_path: Path) -> None:
    wrong = ""
    for attempt in tries(case.script, TRIES):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        shutil.copy(EXAMPLES / case.script, folder)
        report = _diagnose(case, folder)
        _describes_the_job(case, report)
        wrong = _wrong(case, report)
        if not wrong:
            return
    pytest.fail(wrong)


def test_every_example_of_several_devices_is_tried() -> None:
    scripts = EXAMPLES.glob("*.py")
    several = {one.name for one in scripts if "distribute" in one.read_text(encoding="utf-8")}
    assert several == {case.script for case in CASES}


def _diagnose(case: Said, folder: Path) -> Report:
    command = [sys.executable, "-m", "trainperf", "diagnose", "--json", "report.json"]
    command += ["--output-dir", str(folder / "runs")]
    command += ["--only", "torch_ddp_no_sync"] if case.trials else ["--no-trials"]
    command += [*case.launcher, case.script]
    done = subprocess.run(
        command, cwd=folder, env=patient(), capture_output=True, text=True, check=False
    )
    drop_inductor_cache()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert re.search(r"^(Ranks|Exchange of gradients)$", done.stdout, re.MULTILINE)
    report: Report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return report


def _describes_the_job(case: Said, report: Report) -> None:
    """Who took part, and how they exchange: certain, however busy the machine is."""
    job = report["parallel"]
    assert set(job) == {field.name for field in dataclasses.fields(ReportedParallel)}
    assert (job["expected"], job["replicas"], job["hosts"]) == (case.ranks, case.replicas, 1)
    assert job["absent"] == []
    assert job["launcher"] == ("torchrun" if case.launcher else "")
    assert [one["rank"] for one in job["ranks"]] == list(range(case.ranks))
    for rank in job["ranks"]:
        assert set(rank) == {field.name for field in dataclasses.fields(ReportedRank)}
        assert rank["ended"] == "measured"
        assert rank["real_s"] > 0
        assert not case.launcher or rank["local_s"] > 0
    exchange = job["exchange"]
    assert exchange["replicas"] == case.replicas
    assert sum(exchange["buckets"]) > 0
    assert exchange["all_reduce"]["devices"] == case.replicas
    if case.launcher:
        assert (exchange["method"], exchange["backend"]) == ("DistributedDataParallel", "gloo")
        assert len(job["ddp"]) == 1
        assert job["strategy"] is None
    else:
        assert exchange["method"] == "MirroredStrategy"
        assert job["strategy"]["replicas"] == case.replicas
        assert job["ddp"] == []


def _wrong(case: Said, report: Report) -> str:
    """The faults of a report, or nothing."""
    verdict = report["verdict"]
    said = f"{verdict['text']} Findings: {[one['id'] for one in report['findings']] or 'none'}"
    if verdict["bottleneck"] not in case.bottleneck.split("|"):
        return f"expected {case.bottleneck}: {said}"
    wrong = case.wrong(report)
    return f"{wrong}: {said}" if wrong else ""

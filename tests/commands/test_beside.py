"""A diagnosis beside the running job that it is of."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from trainperf.commands import beside, session
from trainperf.commands.cli import cli
from trainperf.commands.session import Target
from trainperf.errors import TrainperfError
from trainperf.run import running
from trainperf.run.processes import began
from trainperf.run.running import Job


def job(*command: str, cwd: Path = Path("/"), pid: int = 0, **environment: str) -> Job:
    me = pid or os.getpid()
    return Job(
        asked=me,
        pid=me,
        command=command,
        label="train.py",
        cwd=str(cwd),
        began=psutil.Process(me).create_time(),
        ticks=began(me) or 0,
        environment=environment,
    )


def test_the_environment_is_the_jobs_meanwhile_but_for_what_is_ours(monkeypatch):
    for name in beside.OURS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MINE", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("TRAINPERF_BUDGET", "9s")
    before = dict(os.environ)
    of_job = job(THEIRS="2", TERM="dumb", TRAINPERF_RUN="/run.json", TRAINPERF_STEPS="3")
    with beside.environment_of(of_job):
        assert dict(os.environ) == {"THEIRS": "2", "TERM": "xterm", "TRAINPERF_BUDGET": "9s"}
    assert dict(os.environ) == before


def test_ranks_of_a_launcher_meet_at_another_port():
    made = beside.startable(job("python", "torchrun", "--master_port", "29500", "train.py"))
    assert made.command[3] != "29500"
    made = beside.startable(job("python", "torchrun", "--nproc_per_node=2", "train.py"))
    assert made.command[2] == "--standalone"
    made = beside.startable(job("python", "/bin/accelerate", "launch", "train.py"))
    assert made.command[3].startswith("--main_process_port=")
    assert made.command[4] == "train.py"


def test_a_port_of_the_environment_is_another_and_none_is_made_up():
    assert beside.startable(job("python", "train.py", MASTER_PORT="29500")).environment[
        "MASTER_PORT"
    ] not in ("29500", "")
    assert beside.startable(job("python", "train.py", A="b")).environment == {"A": "b"}


@pytest.mark.parametrize(
    "environment",
    [
        {"RANK": "1", "WORLD_SIZE": "2"},
        {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "9"},
    ],
)
def test_a_rank_whose_launcher_is_not_seen_is_refused(environment):
    with pytest.raises(TrainperfError, match=r"is rank 1 of 2 .* no launcher"):
        beside.startable(job("python", "train.py", **environment))


def test_what_is_seen_of_the_job_is_its_cores_and_that_it_has_ended():
    look = beside.watch(job("python", "train.py", cwd=Path("/x")))
    sum(range(1_000_000))
    seen = look()
    assert not seen.ended
    assert seen.cores is not None
    assert 0 < seen.cores < 3
    assert (seen.pid, seen.started_by) == (os.getpid(), os.getpid())
    assert seen.began.endswith("+00:00")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        look = beside.watch(job("python", "train.py", pid=process.pid))
        assert not look().ended
    assert look().ended
    assert look().cores is None


def test_the_running_script_is_what_is_diagnosed(monkeypatch, tmp_path):
    caught: list[Target] = []

    def run(target, settings, console):
        caught.append(target)
        raise TrainperfError("enough")

    (tmp_path / "train.py").write_text("x = 1\n")
    found = replace(job("python", "train.py", cwd=tmp_path), script=str(tmp_path / "train.py"))
    monkeypatch.setattr(session, "run", run)
    monkeypatch.setattr(running, "read", lambda pid: replace(found, asked=pid))
    monkeypatch.setenv("RANK", "0")  # of trainperf's own terminal: it is nothing to the job
    monkeypatch.setenv("WORLD_SIZE", "2")
    CliRunner().invoke(cli, ["diagnose", "--pid", "77"])
    [target] = caught
    assert (target.command, target.label, target.cwd) == (found.command, "train.py", tmp_path)
    assert target.job is not None
    assert target.job.asked == 77


@pytest.mark.parametrize("words", [["train.py"], ["-m", "pkg"], ["--", "torchrun"]], ids=str)
def test_a_process_and_a_script_are_not_both_diagnosed(words):
    result = CliRunner().invoke(cli, ["diagnose", "--pid", "77", *words])
    assert result.exit_code == 2
    assert "there is no script beside it" in result.output


def test_this_python_is_not_diagnosed():
    with pytest.raises(TrainperfError, match="is this trainperf"):
        session.running_target(os.getpid())

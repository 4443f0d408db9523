"""`trainperf check` on the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from reporters.samples import INPUT_BOUND, timed
from trainperf.check import running
from trainperf.commands import check as command
from trainperf.commands import session
from trainperf.commands.check import check
from trainperf.errors import TrainperfError
from trainperf.model import Diagnosis, Ending
from trainperf.reporters.json.schema import schema


def took(seconds: float, of: Diagnosis = INPUT_BOUND) -> Diagnosis:
    blocks = tuple(seconds * block for block in (1.0, 1.01, 1.02, 1.3))
    return timed(of, noise=0.02, real=blocks)


class Project:
    """A folder with train.py, whose runs say what `runs` holds, the last for ever."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs: list[Diagnosis] = [took(0.1)]
        self.settings: list[Any] = []
        self.output = self.stdout = self.stderr = ""

    def run(
        self, target: Any, settings: Any, console: Any, named: str, first: bool
    ) -> tuple[Diagnosis, Path, None]:
        self.settings.append(settings)
        one = self.runs[min(len(self.settings), len(self.runs)) - 1]
        return replace(one, script=target.label), self.folder / "runs" / "1", None

    def check(self, *words: str) -> int:
        self.settings.clear()
        result: Result = CliRunner().invoke(check, words)
        self.output, self.stdout, self.stderr = result.output, result.stdout, result.stderr
        if isinstance(result.exception, TrainperfError):
            self.output += f"{result.exception}\n{result.exception.hint}"
            return result.exception.exit_code
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    made = Project(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "train.py").write_text("x = 1\n")
    monkeypatch.setattr(session, "run", made.run)
    monkeypatch.setattr(running, "speed", lambda cores: running.Speed(0.05, 0.05))
    monkeypatch.setattr(command, "inspected", lambda folder: INPUT_BOUND.evidence.machine)
    return made


@pytest.fixture
def based(project: Project) -> Project:
    assert project.check("--save-baseline", "base.json", "train.py") == 0
    return project


# ------------------------------------------------------------------------ the baseline


def test_a_poor_baseline_is_saved_with_what_is_wrong_with_it(project: Project) -> None:
    project.runs = [took(one) for one in (0.1, 0.12, 0.14, 0.15, 0.16)]
    assert project.check("--save-baseline", "base.json", "train.py") == 0
    lines = project.output.splitlines()
    assert lines[0] == "note: the runs differ by 20 %: a check against it cannot tell"
    assert lines[-1] == "saved base.json: train.py, 5 runs, noise ±20.0 %"


# -------------------------------------------------------------------------- the answer


def test_an_unchanged_script_passes_after_one_run(based: Project) -> None:
    based.runs = [took(0.101)]
    assert based.check("--baseline", "base.json", "train.py", "--epochs", "3") == 0
    assert len(based.settings) == 1
    assert based.output == (
        "check passed: 101 ms a step against 100 ms (+1.0 %, noise ±1.5 %, limit 5 %)\n"
    )


def test_a_regression_fails_and_what_changed_is_shown(based: Project) -> None:
    based.runs = [took(0.11)]
    assert based.check("--baseline", "base.json", "train.py") == 1
    assert len(based.settings) == 3
    assert "real step" in based.output
    assert based.output.strip().split("\n")[-1].startswith("check failed: slower: 110 ms a step")


def answered(project: Project, *words: str) -> tuple[int, dict[str, Any]]:
    """The exit status, and the answer as a program reads it from stdout."""
    status = project.check("--baseline", "base.json", *words, "--output-format", "json", "train.py")
    report = json.loads(project.stdout)
    jsonschema.Draft202012Validator(schema()).validate(report)
    return status, report["check"]


def test_a_program_reads_each_reason_with_its_figures(project: Project) -> None:
    project.runs = [took(0.1, replace(INPUT_BOUND, findings=()))]
    project.check("--save-baseline", "base.json", "train.py")
    project.runs = [took(0.2)]
    status, answer = answered(project, "--min-utilization", "0.8")
    assert (status, answer["outcome"], answer["exit_status"]) == (1, "failed", 1)
    kinds = {one["kind"]: one for one in answer["reasons"]}
    assert kinds["time"]["value"] == pytest.approx(1.0)
    assert kinds["time"]["limit"] == 0.05
    assert (kinds["utilization"]["value"], kinds["utilization"]["limit"]) == (
        INPUT_BOUND.verdict.utilization,
        0.8,
    )


@pytest.mark.parametrize(("words", "status"), [((), 0), (("--strict",), 1)])
def test_a_program_tells_what_cannot_be_told_from_a_pass(
    based: Project, words: tuple[str, ...], status: int
) -> None:
    based.runs = [took(one) for one in (0.11, 0.13, 0.14, 0.15, 0.17)]
    exited, answer = answered(based, *words)
    assert (exited, answer["exit_status"]) == (status, status)
    assert answer["outcome"] == "undecided"
    assert answer["reasons"][0]["outcome"] == "undecided"


def test_a_check_is_not_one_of_several_ranks(
    based: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "LOCAL_RANK"):
        monkeypatch.setenv(name, "0")
    for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, "2")
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert based.check("--baseline", "base.json", "train.py") == 2
    assert "trainperf check --… -- torchrun" in based.output


# ------------------------------------------------------------------ what is not compared


def test_another_machine_is_refused_before_anything_is_run(
    based: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = replace(INPUT_BOUND.evidence.machine, cpu_model="Intel Xeon", cores=8.0)
    monkeypatch.setattr(command, "inspected", lambda folder: other)
    assert based.check("--baseline", "base.json", "train.py") == 2
    assert based.settings == []
    assert "another processor: AMD EPYC against Intel Xeon" in based.output
    assert "another number of usable cores: 2 against 8" in based.output
    assert "trainperf check --save-baseline base.json train.py" in based.output


@pytest.mark.parametrize(
    ("ending", "status"), [(Ending.FAILED, 3), (Ending.STALLED, 3), (Ending.INTERRUPTED, 130)]
)
def test_a_run_that_ended_early_is_not_compared_though_some_steps_were_timed(
    based: Project, ending: Ending, status: int
) -> None:
    based.runs = [replace(took(0.1), ending=ending)]
    assert based.check("--baseline", "base.json", "train.py") == status
    assert "check passed" not in based.output
    assert based.check("--save-baseline", "new.json", "train.py") == status
    assert not Path("new.json").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("train.py",), "which baseline?"),
        (("--baseline", "a", "--save-baseline", "b", "train.py"), "one of --baseline and"),
        (("--baseline", "none.json", "train.py"), "trainperf check --save-baseline none.json"),
        (("--baseline", "base.json", "nope.py"), "no such file"),
        (("--baseline", "base.json"), "trainperf check --against REV train.py"),
        (("train.py", "--baseline", "base.json"), "options behind the script are its own"),
        (("--save-baseline", "nowhere/b.json", "train.py"), "there is no folder nowhere"),
        (("--save-baseline", ".", "train.py"), "is a folder"),
        (("--baseline", "base.json", "--json", "nowhere/r.json", "train.py"), "no folder nowhere"),
        (("--baseline", "base.json", "--max-regression", "10", "train.py"), "write 10% or 0.1"),
        (("--baseline", "base.json", "--max-regression", "x", "train.py"), "write 10% or 0.1"),
    ],
)
def test_wrong_usage_is_said_with_the_next_step(
    based: Project, words: tuple[str, ...], says: str
) -> None:
    assert based.check(*words) == 2
    assert says in based.output
    assert based.settings == []

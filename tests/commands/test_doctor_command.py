from __future__ import annotations

import io
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from trainperf.commands import doctor
from trainperf.commands.cli import cli
from trainperf.errors import TrainperfError
from trainperf.evidence.traced import NOWHERE
from trainperf.machine.doctor.checks import Check, Checkup
from trainperf.self_test.judging import Figure, SelfTest


def found(measured: float | None) -> SelfTest:
    figure = Figure("a step", "s", 0.05, measured, 0.03)
    return SelfTest("PyTorch", "2.13", "the CPU", (figure,), (Check("x", "ok", "y"),), 60.0)


@pytest.mark.parametrize(("measured", "status"), [(0.05, 0), (0.08, 1), (None, 2)])
def test_the_exit_status_says_whether_the_measuring_holds(
    measured: float | None, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "trainperf.self_test.experiments.self_test", lambda say, given: found(measured)
    )
    report = tmp_path / "report.json"
    done = CliRunner().invoke(cli, ["doctor", "--self-test", "--json", str(report)])
    assert done.exit_code == status, done.output
    assert found(measured).conclusion.split(",")[0] in done.output
    assert '"figures"' in report.read_text()


def test_its_options_belong_to_the_self_test(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["doctor", "--json", str(tmp_path / "report.json")])
    assert done.exit_code == 2
    assert "belongs to --self-test" in done.output


def test_a_report_that_could_not_be_written_is_refused_before_minutes_pass(tmp_path: Path) -> None:
    words = ["doctor", "--self-test", "--json", str(tmp_path / "missing" / "report.json")]
    done = CliRunner().invoke(cli, words)
    assert isinstance(done.exception, TrainperfError)
    assert "there is no folder" in str(done.exception)


@pytest.mark.parametrize(
    ("checks", "answer"),
    [
        ((("CPU cores", "ok"), ("Frameworks", "ok")), "This machine can be diagnosed"),
        ((("/dev/shm", "problem"), ("Frameworks", "ok")), "not as it should run: /dev/shm"),
        ((("Frameworks", "warning"),), "Not yet"),
    ],
)
def test_the_first_line_says_whether_the_machine_can_be_diagnosed(checks, answer) -> None:
    looked_at = tuple(Check(name, status, "") for name, status in checks)
    out = Console(file=io.StringIO(), width=80)
    doctor.render(Checkup(NOWHERE, looked_at), out)
    assert answer in out.file.getvalue().splitlines()[0]

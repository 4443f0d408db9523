"""The composite action: its shape, and what its shell makes of its inputs.

The steps are run by bash as GitHub runs them, with a `trainperf` and a `pip` on the path that
only say how they were called.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML reads the action")

ROOT = Path(__file__).parent.parent
PATH = ROOT / ".github" / "actions" / "trainperf" / "action.yml"
ACTION: dict[str, Any] = yaml.safe_load(PATH.read_text(encoding="utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
INSTALL, RUN, _ = STEPS
FORMATS = ("terminal", "github", "html=", "json=", "markdown=", "sarif=")

FAKE = """#!{python}
import json, os, sys
with open(os.environ["CALLS"], "a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
report = [one[5:] for one in sys.argv if one.startswith("json=")]
if report and os.environ.get("VERDICT_TEXT"):
    with open(report[0], "w") as file:
        json.dump({{"verdict": {{"text": os.environ["VERDICT_TEXT"]}}}}, file)
sys.exit(int(os.environ.get("STATUS", "0")))
"""


class Runner:
    """Runs a step in a folder of its own, as GitHub's runner does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.status = 0
        self.told = ""
        bin_ = folder / "bin"
        bin_.mkdir()
        (bin_ / "trainperf").write_text(FAKE.format(python=sys.executable))
        (bin_ / "trainperf").chmod(0o755)
        (bin_ / "python").symlink_to(sys.executable)

    def run(self, step: dict[str, Any], inputs: dict[str, str], **env: str) -> None:
        """Run `step` with the defaults of the action but for `inputs`."""
        given = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()}
        given |= inputs
        named = {
            name: given[re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", value)[1]]  # type: ignore[index]
            for name, value in step["env"].items()
        }
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        script = self.folder / "step.sh"
        script.write_text(step["run"])
        for name in ("output", "calls"):
            (self.folder / name).write_text("")
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)],
            cwd=work,
            env=os.environ
            | {
                "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
                "GITHUB_OUTPUT": str(self.folder / "output"),
                "CALLS": str(self.folder / "calls"),
            }
            | named
            | env,
            capture_output=True,
            text=True,
            check=False,
        )
        self.status, self.told = done.returncode, done.stdout + done.stderr

    @property
    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]

    @property
    def outputs(self) -> dict[str, str]:
        """The values that the runner reads out of $GITHUB_OUTPUT."""
        lines = iter((self.folder / "output").read_text().split("\n"))
        found = {}
        for line in lines:
            name, mark, end = line.partition("<<")
            if mark:
                found[name] = "\n".join(iter(lambda end=end: next(lines), end))  # type: ignore[misc]
        return found


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def plain(call: list[str]) -> list[str]:
    """A call without its formats."""
    rest = iter(call)
    return [one for one in rest if one != "--output-format" or not next(rest)]


def test_no_input_is_pasted_into_a_shell() -> None:
    for step in (INSTALL, RUN):
        assert "${{" not in step["run"]
    for name in ACTION["inputs"]:
        assert f"inputs.{name}" in PATH.read_text(encoding="utf-8")


def test_its_outputs_are_those_that_its_step_writes(runner: Runner) -> None:
    runner.run(RUN, {"script": "train.py"})
    for name, one in ACTION["outputs"].items():
        assert one["value"] == f"${{{{ steps.run.outputs.{name} }}}}"
    assert set(ACTION["outputs"]) == set(runner.outputs)
    assert RUN["id"] == "run"


def test_without_a_baseline_the_script_is_diagnosed_in_all_formats(runner: Runner) -> None:
    runner.run(RUN, {"script": "train.py", "budget": "2min", "fail-on": "1.2"})
    (call,) = runner.calls
    assert plain(call) == ["diagnose", "--fail-on", "1.2", "--budget", "2min", "train.py"]
    formats = [call[i + 1] for i, one in enumerate(call) if one == "--output-format"]
    assert [one.partition("/")[0] for one in formats] == list(FORMATS)
    folder = str(runner.folder / "work" / "trainperf-report")
    assert all(one.split("=")[1].startswith(f"{folder}/") for one in formats[2:])
    assert Path(folder).is_dir()
    assert (runner.status, runner.outputs["report"]) == (0, folder)


@pytest.mark.parametrize(
    ("against", "words"),
    [("origin/main", ["--against", "origin/main"]), ("merge-base", ["--against="])],
)
def test_it_can_be_checked_against_a_revision(
    runner: Runner, against: str, words: list[str]
) -> None:
    runner.run(RUN, {"script": "a.py", "against": against, "max-regression": "10%"})
    assert plain(runner.calls[0]) == ["check", *words, "--max-regression", "10%", "a.py"]


def test_a_check_that_is_to_fail_on_a_finding_is_an_error_and_nothing_is_run(
    runner: Runner,
) -> None:
    runner.run(RUN, {"script": "a.py", "baseline": "base.json", "fail-on": "1.2"})
    assert (runner.outputs["exit-status"], runner.calls) == ("2", [])
    assert "fail-on is of a diagnosis" in runner.told


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("", []),
        ("--epochs 3", ["--epochs", "3"]),
        ("""-d "some dir" -n 'it"s' x\\ y ''""", ["-d", "some dir", "-n", 'it"s', "x y", ""]),
        ("$(touch owned) `touch owned` ; touch owned", None),
        ("* ~ $HOME ${PATH} a|b >owned &", None),
        ("--a\n--b", ["--a", "--b"]),
        ("'two\nlines'", ["two\nlines"]),
        ("# no comment", ["#", "no", "comment"]),
        ("grün 日本", ["grün", "日本"]),
    ],
)
def test_arguments_are_split_as_a_shell_would_and_nothing_is_expanded(
    runner: Runner, args: str, words: list[str] | None
) -> None:
    runner.run(RUN, {"script": "my train.py", "args": args})
    assert plain(runner.calls[0])[1:] == [
        "my train.py",
        *(args.split() if words is None else words),
    ]
    assert not (runner.folder / "work" / "owned").exists()


def test_a_quote_that_is_not_closed_is_an_error_and_nothing_is_run(runner: Runner) -> None:
    runner.run(RUN, {"script": "a.py", "args": "--name 'x"})
    assert runner.status != 0
    assert "::error title=trainperf::the input args cannot be read: No closing" in runner.told
    assert runner.outputs["exit-status"] == "2"
    assert runner.calls == []


@pytest.mark.parametrize(
    "value",
    ["$(touch owned)", "`touch owned`", "a; touch owned", '"; touch owned; "', "a b", "it's"],
)
def test_no_input_is_run_or_split(runner: Runner, value: str) -> None:
    names = ("script", "baseline", "max-regression", "budget", "output-dir")
    runner.run(RUN, dict.fromkeys(names, value))
    assert not (runner.folder / "work" / "owned").exists()
    (call,) = runner.calls
    assert call.count(value) == 4
    assert runner.outputs["report"] == f"{runner.folder}/work/{value}"


@pytest.mark.parametrize("status", ["0", "1", "3"])
def test_it_ends_as_trainperf_does_and_says_the_verdict(runner: Runner, status: str) -> None:
    text = "Input-bound: waits\nfor `x`\nEOF\nreport<<x"
    runner.run(RUN, {"script": "a.py"}, STATUS=status, VERDICT_TEXT=text)
    assert runner.status == int(status)
    assert runner.outputs["exit-status"] == status
    assert runner.outputs["verdict"] == "Input-bound: waits for `x` EOF report<<x"


def test_without_a_report_there_is_no_verdict_not_even_an_older_one(runner: Runner) -> None:
    runner.run(RUN, {"script": "a.py"}, VERDICT_TEXT="Healthy.")
    assert runner.outputs["verdict"] == "Healthy."
    runner.run(RUN, {"script": "a.py"}, STATUS="2")
    assert runner.outputs["verdict"] == ""
    assert runner.status == 2


@pytest.mark.parametrize(
    ("version", "wanted"), [("", str(ROOT)), ("trainperf==1.2", "trainperf==1.2")]
)
def test_it_installs_its_own_repository_or_what_is_asked_for(
    runner: Runner, version: str, wanted: str
) -> None:
    fake = runner.folder / "bin" / "python"
    fake.unlink()
    fake.write_text(FAKE.format(python=sys.executable))
    fake.chmod(0o755)
    runner.run(INSTALL, {"version": version}, GITHUB_ACTION_PATH=str(PATH.parent))
    (call,) = runner.calls
    assert call[:3] == ["-m", "pip", "install"]
    assert call[-2:] == ["--", wanted]


def test_the_smoke_workflow_uses_it_with_inputs_that_it_has() -> None:
    text = (ROOT / ".github" / "workflows" / "smoke.yml").read_text(encoding="utf-8")
    steps = yaml.safe_load(text)["jobs"]["diagnose"]["steps"]
    uses = [one for one in steps if one.get("uses") == "./.github/actions/trainperf"]
    assert len(uses) >= 2
    for one in uses:
        assert set(one["with"]) <= set(ACTION["inputs"])
        assert (ROOT / one["with"]["script"]).is_file()
    assert len({one["with"]["artifact-name"] for one in uses}) == len(uses)
    assert any(one.get("continue-on-error") for one in uses)


def test_the_page_names_every_input_and_output() -> None:
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    for name in (*ACTION["inputs"], *ACTION["outputs"]):
        assert f"| `{name}` |" in page


def test_a_step_without_a_report_says_where_to_look(runner: Runner) -> None:
    runner.run(RUN, {"script": "a.py"}, STATUS="2")
    report = Path(runner.outputs["report"]) / "report.json"
    said = "::error title=trainperf::no report was made; the log of this step says why"
    assert (said in runner.told) is not report.exists()
    assert runner.outputs["exit-status"] == "2"

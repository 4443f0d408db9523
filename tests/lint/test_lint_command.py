"""`trainperf lint`: what it reads, prints and returns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from trainperf.commands.lint import lint

BAD = "import torch\ntorch.autograd.set_detect_anomaly(True)\n"
GOOD = "import torch\nprint(torch.zeros(3))\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRAINPERF_IGNORE", raising=False)
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(lint, words)


def test_nothing_found_is_status_0(here: Path) -> None:
    (here / "a.py").write_text(GOOD)
    result = run("a.py")
    assert (result.exit_code, result.output) == (0, "Nothing found in 1 file.\n")


def test_something_found_is_status_1_and_one_line(here: Path) -> None:
    (here / "a.py").write_text(GOOD)
    (here / "b.py").write_text(BAD)
    result = run(".")
    first, last = result.output.splitlines()
    assert result.exit_code == 1
    assert first.startswith("b.py:2:1: torch_debug_modes set_detect_anomaly(mode=True) may be")
    assert last == "1 place that may be slow, in 1 of 2 files."


def test_a_file_that_does_not_parse_does_not_end_the_rest(here: Path) -> None:
    (here / "a.py").write_text("import torch\nset_detect_anomaly(\n")
    (here / "b.py").write_text(BAD)
    result = run(".")
    assert result.exit_code == 2
    assert "b.py:2:1: torch_debug_modes" in result.output
    assert "a.py:2: not read: does not parse as Python 3." in result.output
    assert result.output.endswith("1 of 2 files; 1 file not read.\n")


def test_the_projects_settings_turn_a_rule_off(here: Path) -> None:
    (here / "a.py").write_text(BAD)
    (here / "pyproject.toml").write_text("[tool.trainperf]\nignore = ['torch_debug_modes']\n")
    assert run("a.py").exit_code == 0


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.autograd.set_detect_anomaly(True)  # trainperf: ignore\n",
        BAD.replace("True", "\n    True  # trainperf: ignore[torch_debug_modes]\n"),
        BAD.replace("\n", "\n# trainperf: ignore[torch_debug_modes]\n# we look for a NaN\n", 1),
    ],
)
def test_a_comment_turns_a_place_off(here: Path, source: str) -> None:
    (here / "a.py").write_text(source)
    assert run("a.py").exit_code == 0


@pytest.mark.parametrize(
    "source",
    [
        BAD.rstrip() + "  # trainperf: ignore[torch_workers]\n",
        "x = '# trainperf: ignore'\n" + BAD,
        "# trainperf: ignore[torch_debug_modes]\n" + BAD,
    ],
)
def test_a_comment_for_something_else_does_not(here: Path, source: str) -> None:
    (here / "a.py").write_text(source)
    assert run("a.py").exit_code == 1


def test_json_says_the_same(here: Path) -> None:
    (here / "a.py").write_text("import torch; f('ü'); torch.autograd.set_detect_anomaly(True)\n")
    found = json.loads(run("a.py", "--output-format", "json").output)
    (only,) = found["found"]
    assert (only["id"], only["path"], only["line"]) == ("torch_debug_modes", "a.py", 1)
    assert only["column"] == 23
    assert (found["unread"], found["files"]) == ([], 1)


def test_github_gets_commands_that_nothing_in_a_name_can_break(here: Path) -> None:
    (here / "a,b:c%.py").write_text(BAD)
    line = run(".", "--output-format", "github").output.splitlines()[0]
    assert line.startswith("::warning file=a%2Cb%3Ac%25.py,line=2,col=1,title=trainperf%3A torch_")


def test_a_name_cannot_move_the_cursor(here: Path) -> None:
    (here / "a\x1b[2J.py").write_text(BAD)
    assert "\x1b" not in run(".").output


def test_a_folder_without_python_is_said_to_be_one(here: Path) -> None:
    result = run(".")
    assert (result.exit_code, result.output) == (
        0,
        "No Python file and no notebook is there: nothing was read.\n",
    )


def test_a_cell_that_does_not_parse_is_named_in_every_format(here: Path) -> None:
    cells = [{"cell_type": "code", "source": one} for one in ("import torch", BAD, "torch.(")]
    (here / "a.ipynb").write_text(json.dumps({"cells": cells}))
    result = run(".")
    assert result.exit_code == 2
    assert "a.ipynb:cell 3:1: not read: does not parse as Python" in result.output
    told = json.loads(run(".", "--output-format", "json").output)
    assert [(one["cell"], one["line"]) for one in told["unread"]] == [(3, 1)]
    commands = run(".", "--output-format", "github").output
    assert "::error file=a.ipynb,title=trainperf::not read" in commands


@pytest.mark.parametrize("known_by", ["git", "workspace"])
def test_from_a_folder_of_the_repository_annotations_name_files_from_its_root(
    here: Path, monkeypatch: pytest.MonkeyPatch, known_by: str
) -> None:
    folder = here / "training"
    folder.mkdir()
    (folder / "a.py").write_text(BAD)
    if known_by == "git":
        monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
        (here / ".git").mkdir()
    else:
        monkeypatch.setenv("GITHUB_WORKSPACE", str(here))
    monkeypatch.chdir(folder)
    assert run("--output-format", "github", ".").output.startswith("::warning file=training/a.py,")
    assert run("a.py").output.startswith("a.py:2:1: ")

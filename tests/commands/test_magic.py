"""`%%trainperf`, with a shell of a few lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import trainperf
from reporters.samples import INPUT_BOUND
from trainperf import store
from trainperf.commands import magic
from trainperf.model import Patch, Site


class Shell:
    """What of IPython's shell the magic uses."""

    def __init__(self) -> None:
        self.history_manager = SimpleNamespace(input_hist_raw=[""])
        self.events = SimpleNamespace(register=self._register)
        self.magics: dict[str, Any] = {}

    def _register(self, event: str, call: Any) -> None:
        assert event == "post_run_cell"
        self._ran = call

    def register_magic_function(self, func: Any, kind: str, name: str) -> None:
        assert kind == "cell"
        self.magics[name] = func

    def run(self, text: str, success: bool = True) -> None:
        self.history_manager.input_hist_raw.append(text)
        if text.startswith("%%"):
            line, _, cell = text.partition("\n")
            name, _, line = line.removeprefix("%%").partition(" ")
            self.magics[name](line, cell)
        self._ran(SimpleNamespace(success=success, info=SimpleNamespace(raw_cell=text)))


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """What is displayed in the notebook."""
    found: list[dict[str, str]] = []
    module: Any = ModuleType("IPython.display")
    module.display = lambda bundle, raw: found.append(bundle)
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return found


def test_a_cell_runs_after_those_before_it_and_the_report_is_shown(
    shown: list[dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    commands: list[Sequence[str]] = []
    notebooks: list[list[str]] = []

    def run(command: Sequence[str]) -> None:
        commands.append(command)
        cells = json.loads((tmp_path / command[-1]).read_text())["cells"]
        notebooks.append([cell["source"] for cell in cells])
        site = Site(str(tmp_path / command[-1]), 6002)
        finding = replace(INPUT_BOUND.findings[0], where=(site,))
        patch = Patch("x", (), cells=f"--- a/{command[-1]}, cell 6\n")
        made = replace(
            INPUT_BOUND, findings=(finding,), patch=patch, command=("python", command[-1])
        )
        store.save(made, Path(command[command.index("--json") + 1]))

    monkeypatch.setattr(magic, "_run", run)
    shell = Shell()
    trainperf.load_ipython_extension(shell)
    shell.run("import torch")
    shell.run("1 / 0", success=False)
    shell.run("import torch")
    shell.run("x = (")
    shell.run("!ls\nx = 1")
    shell.run("%%trainperf --budget '1 min'\nfit(x)")
    shell.run("%%trainperf\nfit(x)")
    first = [
        "import torch",
        "# left out: it failed",
        "# left out: the same as cell 1",
        "# left out: it failed",
        "!ls\nx = 1",
    ]
    assert notebooks == [
        [*first, "%%trainperf --budget '1 min'\nfit(x)"],
        [*first, "# diagnosed, not run", "%%trainperf \nfit(x)"],
    ]
    assert "--budget" in commands[0]
    assert "1 min" in commands[0]
    assert list(tmp_path.iterdir()) == []  # the notebook that was run is gone
    assert "Input-bound" in shown[0]["text/plain"]
    assert "cell 6" in shown[0]["text/html"]
    assert shown[0]["text/html"].startswith("<div><iframe srcdoc=")
    assert "a/notebook.ipynb, cell 6" in shown[0]["text/html"]
    assert "cell 6, line 2" in shown[0]["text/html"]
    for gone in ("trainperf fix", ".trainperf-"):
        assert gone not in shown[0]["text/html"]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("--budget '1", "trainperf: No closing quotation\n"),
        ("--no-such-option", "--no-such-option"),
    ],
)
def test_what_ends_without_a_report_shows_none(
    shown: list[dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], line: str, error: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    shell = Shell()
    trainperf.load_ipython_extension(shell)
    shell.run(f"%%trainperf {line}\nfit(x)")
    assert (shown, list(tmp_path.iterdir())) == ([], [])
    assert error in capsys.readouterr().err

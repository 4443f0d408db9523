"""Text that is not ours does nothing on a terminal, nor in the log of a workflow."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kit.processes import trainperf

CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
NAMES = {
    "a title": "\x1b]0;owned\x07train.py",
    "a clear screen": "\x1b[2Jtrain.py",
    "a command in a line of its own": "train\n::error::owned\n.py",
    "an older command": "##[error]owned.py",
    "a turned direction": "train\u202eyp.gpj",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize(
    "words", ["diagnose", "lint", "show", "merge", "compare a.json", "fix", "explain"]
)
def test_errors_quote_names_that_do_nothing(tmp_path: Path, name: str, words: str) -> None:
    result = trainperf(tmp_path, *words.split(), name, env={"GITHUB_ACTIONS": "true"})
    assert result.returncode == 2
    printed = result.stdout + result.stderr
    assert printed.strip()
    assert not CONTROLS.search(printed)
    assert "\u202e" not in printed
    assert not re.search(r"^\s*::|##\[", printed, re.MULTILINE)

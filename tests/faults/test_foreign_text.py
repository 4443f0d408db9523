"""Text that is not ours does nothing on a terminal, nor in the log of a workflow."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.processes import trainperf
from trainperf.report.plain import no_commands, one_line

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


@given(st.text(alphabet=":# [e\n\t\x1b", max_size=12))
def test_no_line_is_a_command(text: str) -> None:
    safe = no_commands(text)
    assert not any(line.lstrip().startswith("::") for line in safe.split("\n"))
    assert "##[" not in safe


@given(st.text(max_size=30))
def test_a_line_stays_one_and_prints_nothing_but_signs(text: str) -> None:
    assert not re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202e]", one_line(text))

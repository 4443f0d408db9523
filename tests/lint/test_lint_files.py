"""Which files are read, and what cannot be: nothing ends the run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from trainperf.lint import check
from trainperf.lint.check import Lint, lint
from trainperf.lint.rules import all_rules

BAD = "import torch\ntorch.autograd.set_detect_anomaly(True)\n"


def linted(*paths: Path) -> Lint:
    return lint(paths, all_rules())


def found(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in check.find([folder])]


def test_folders_that_are_not_the_projects_are_skipped(tmp_path: Path) -> None:
    for name in (".git", ".venv", "build", "site-packages", "__pycache__", "mine", "src/deep"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "a.py").write_text(BAD)
    (tmp_path / "mine" / "pyvenv.cfg").touch()
    (tmp_path / "notes.txt").write_text(BAD)
    assert found(tmp_path) == ["src/deep/a.py"]


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(BAD)
    (tmp_path / "again").symlink_to(tmp_path)
    (tmp_path / "broken.py").symlink_to(tmp_path / "nowhere")
    (tmp_path / "self.py").symlink_to(tmp_path / "self.py")
    assert found(tmp_path) == ["a.py"]


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(BAD)
    assert len(linted(tmp_path, tmp_path / "a.py").seen) == 1


def test_a_file_without_a_framework_is_not_parsed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def (:\n")
    assert linted(tmp_path) == Lint()


@pytest.mark.parametrize(
    "data",
    [
        b"# -*- coding: latin-1 -*-\n# \xe4\n" + BAD.encode(),
        b"\xef\xbb\xbf" + BAD.encode(),
        BAD.replace("\n", "\r\n").encode(),
        BAD.replace("\n", "\r").encode(),
    ],
    ids=["latin-1", "bom", "crlf", "cr"],
)
def test_text_is_read_as_python_reads_it(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.py").write_bytes(data)
    result = linted(tmp_path)
    assert result.unread == ()
    assert [each.id for each in result.seen] == ["torch_debug_modes"]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (BAD.encode() + b"\xff\xfe", "can't decode byte"),
        (b"# coding: no-such\n" + BAD.encode(), "unknown encoding"),
        (BAD.encode() + b"\0", "null bytes"),
        (BAD.encode() + b"x = " + b"-" * 200_000 + b"1\n", "does not parse"),
    ],
    ids=["bytes", "encoding", "null", "minuses"],
)
def test_what_cannot_be_read_is_said_and_the_rest_is_checked(
    tmp_path: Path, data: bytes, why: str
) -> None:
    (tmp_path / "a.py").write_bytes(data)
    (tmp_path / "b.py").write_text(BAD)
    result = linted(tmp_path)
    assert [each.path.name for each in result.seen] == ["b.py"]
    (unread,) = result.unread
    assert why in unread.reason


def test_a_file_that_may_not_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(BAD)
    (tmp_path / "a.py").chmod(0)
    if os.access(tmp_path / "a.py", os.R_OK):
        pytest.skip("this user may read everything")
    (unread,) = linted(tmp_path).unread
    assert unread.reason == "Permission denied"


def notebook(*cells: tuple[str, str]) -> str:
    return json.dumps({"cells": [{"cell_type": kind, "source": [text]} for kind, text in cells]})


def test_the_code_of_a_notebook_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.ipynb").write_text(
        notebook(
            ("markdown", "torch"),
            ("code", "%matplotlib inline\n!pip list\nimport torch"),
            ("code", "%%bash\nls"),
            ("code", "x = 1\ntorch.autograd.set_detect_anomaly(True)"),
        )
    )
    (only,) = linted(tmp_path).seen
    assert (only.cell, only.line, only.column) == (3, 2, 1)


def test_what_is_no_notebook_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.ipynb").write_text('{"cells": "torch"}')
    (unread,) = linted(tmp_path).unread
    assert unread.reason == "not a notebook"

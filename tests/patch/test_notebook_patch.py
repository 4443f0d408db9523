"""Edits of a notebook: shown by cells, applied by git, written with its outputs kept."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reporters.samples import INPUT_BOUND
from rewriting import finding_of
from trainperf import store
from trainperf.errors import TrainperfError
from trainperf.fixes import by_id
from trainperf.model import Finding, Site
from trainperf.patch import fix as fixing
from trainperf.patch.patch import Edits

CELLS = (
    "%matplotlib inline\nimport tensorflow as tf",
    'print("größe")\nds = x.map(f)',
    "%%time\nmodel.fit(ds)",
)
FIXED = 'print("größe")\nds = x.map(f, num_parallel_calls=tf.data.AUTOTUNE)'
MAP = "tf_map_parallel"
SHOWN = """\
--- a/my book.ipynb, cell 2\t
+++ b/my book.ipynb, cell 2\t
@@ -1,2 +1,2 @@
 print("größe")
-ds = x.map(f)
+ds = x.map(f, num_parallel_calls=tf.data.AUTOTUNE)
"""


def book(*sources: str, printed: str = "größe") -> bytes:
    output = {"output_type": "stream", "text": [printed], "n": 1e-05}
    cells: list[dict[str, Any]] = [{"cell_type": "markdown", "metadata": {}, "source": ["# a"]}]
    for source in sources:
        lines = source.splitlines(keepends=True)
        cells.append({"cell_type": "code", "metadata": {}, "outputs": [output], "source": lines})
    return (json.dumps({"cells": cells, "nbformat": 4}, indent=1, ensure_ascii=False)).encode()


def finding(file: Path) -> Finding:
    site = Site(str(file), 2002, "<module>", 5, 2002, 13)
    return finding_of(by_id()[MAP], bound=2.0, where=(site,))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "project" / "my book.ipynb"
    path.parent.mkdir()
    path.write_bytes(book(*CELLS))
    return path


@pytest.fixture
def run(file: Path, tmp_path: Path) -> Path:
    """A saved run whose patch has one edit of the notebook."""
    found = finding(file)
    patch = Edits(file.parent, by_id()).write((found,)).patch
    report = tmp_path / "run" / "diagnosis.json"
    saved = replace(INPUT_BOUND, findings=(found,), patch=patch, trials=(), stack=None)
    store.save(saved, report)
    return report


def test_git_applies_the_patch_and_readers_see_cells(file: Path) -> None:
    written = Edits(file.parent, by_id()).write((finding(file),))
    assert written.contents == {str(file): book(CELLS[0], FIXED, CELLS[2])}
    assert written.patch.shown == SHOWN
    assert Edits(file.parent, by_id()).lines(finding(file)) == FIXED.split("\n")[1]
    diff = written.patch.diff.encode()
    subprocess.run(("git", "apply", "-"), cwd=file.parent, input=diff, check=True)
    assert file.read_bytes() == book(CELLS[0], FIXED, CELLS[2])


def test_the_notebook_is_written_with_its_outputs(run: Path, file: Path) -> None:
    fixed = fixing.fix(run, (), dry=False)
    assert file.read_bytes() == book(CELLS[0], FIXED, CELLS[2])
    assert fixed.diff == SHOWN
    assert fixed.lines[:2] == ("my book.ipynb: 1 edit", f"fixes: {MAP}")
    assert fixing.fix(run, (), dry=False).lines == (f"already in the source: {MAP}",)


def test_one_that_was_run_again_since_is_still_the_same(run: Path, file: Path) -> None:
    file.write_bytes(book(*CELLS, printed="another\noutput"))
    fixing.fix(run, (), dry=False)
    assert file.read_bytes() == book(CELLS[0], FIXED, CELLS[2], printed="another\noutput")


def test_one_that_was_run_again_after_the_fix_has_it_already(run: Path, file: Path) -> None:
    fixing.fix(run, (), dry=False)
    file.write_bytes(book(CELLS[0], FIXED, CELLS[2], printed="faster"))
    assert fixing.fix(run, (), dry=False).lines == (f"already in the source: {MAP}",)
    assert file.read_bytes() == book(CELLS[0], FIXED, CELLS[2], printed="faster")


@pytest.mark.parametrize("cells", [(*CELLS, "x = 1"), (*CELLS[:2], "model.fit(other)")])
def test_one_whose_code_was_changed_since_is_refused(
    run: Path, file: Path, cells: tuple[str, ...]
) -> None:
    file.write_bytes(book(*cells))
    with pytest.raises(TrainperfError, match="was changed since the run"):
        fixing.fix(run, (), dry=False)
    assert file.read_bytes() == book(*cells)


def test_one_that_is_no_notebook_any_more_is_refused(run: Path, file: Path) -> None:
    file.write_bytes(b"{}")
    with pytest.raises(TrainperfError, match=r"changed since the run|cannot be"):
        fixing.fix(run, (), dry=False)


def test_reasons_name_the_cell(file: Path) -> None:
    wrong = replace(finding(file), where=(Site(str(file), 2001, "", 3, 2001, 9),))
    (skipped,) = Edits(file.parent, by_id()).write((wrong,)).patch.skipped
    assert skipped.reason == "no call stands at my book.ipynb, cell 2, line 1: did the file change?"

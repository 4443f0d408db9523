"""Lines of notebooks, whose number says the cell that they stand in.

The code of a notebook is run, parsed and edited as one text in which line 3007 is line 7 of
cell 3. So a file and a line are enough to say a place, whoever wrote them down. Cells are
those with code, counted from 1: the `[3]` that Jupyter shows after a run from the top.
"""

from __future__ import annotations

import os
import re

STRIDE = 1000
"""Lines of the text from the start of a cell to that of the next; no cell may be longer."""

_IN_TRACEBACK = re.compile(r'(\.ipynb", )line (\d+)')
_AFTER_NAME = re.compile(r"(\.ipynb):(\d+)")
_LINE = re.compile(r"\bline (\d{4,})\b")


def is_notebook(file: str) -> bool:
    """Say whether a file is a notebook, by its name."""
    return file.endswith(".ipynb")


def is_configuration(file: str) -> bool:
    """Say whether a file holds settings rather than source, by its name."""
    return file.endswith((".json", ".yaml", ".yml"))


def cell_and_line(line: int) -> tuple[int, int]:
    """Return the cell of a line of a notebook's text, and its line in there; from 1."""
    return divmod(line, STRIDE)


def spot(file: str, line: int) -> str:
    """Say a line as a reader looks it up: "train.py:14", of a notebook "cell 3, line 7".

    A line before all cells is the notebook as a whole, which is said by its name.
    """
    if not is_notebook(file):
        return f"{file}:{line}"
    return _said(line) if line >= STRIDE else file


def short_spot(file: str, line: int) -> str:
    """Say a line by the name of its file alone."""
    return spot(os.path.basename(file), line)


def in_traceback(text: str) -> str:
    """Return what a script printed, lines of notebooks in the words of a reader."""
    return _IN_TRACEBACK.sub(lambda found: found[1] + _said(int(found[2])), text)


def in_reason(text: str) -> str:
    """Return a sentence on a notebook's text, its lines in the words of a reader."""
    text = _AFTER_NAME.sub(lambda found: f"{found[1]}, {_said(int(found[2]))}", text)
    return _LINE.sub(lambda found: _said(int(found[1])), text)


def _said(line: int) -> str:
    cell, own = cell_and_line(line)
    return f"cell {cell}, line {own}" if own else f"cell {cell}"

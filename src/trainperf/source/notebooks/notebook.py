"""A notebook as the text of a script, and back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trainperf.recording.cells import STRIDE, is_notebook
from trainperf.source.notebooks.ipython import as_python, as_written

_MARK = re.compile(r"^# cell (\d+) of the notebook$", re.M)

_LAYOUTS: tuple[dict[str, Any], ...] = (
    {"indent": 1},
    {"indent": 2},
    {"indent": 4},
    {"separators": (",", ":")},
    {},
)
"""How JSON is written; Jupyter's way comes first."""


class NotANotebook(ValueError):  # noqa: N818 - names an outcome; the message is the reason
    """A file that is no notebook of version 4, or not one in Python."""


@dataclass(frozen=True)
class Cell:
    """A cell with code. `number` counts those from 1.

    `source` is its text in the notebook, `code` what runs: as many lines, with no command to
    IPython. `left_out` are the commands that are not done.
    """

    number: int
    source: str
    code: str
    left_out: tuple[str, ...]


class Notebook:
    """The code of a notebook, as one text whose line numbers say the cells (`recording.cells`).

    Raises `NotANotebook`.
    """

    def __init__(self, data: bytes) -> None:
        try:
            self._raw = data.decode()
            self.cells = tuple(_cells(json.loads(self._raw)))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if isinstance(error, NotANotebook):
                raise
            raise NotANotebook("not a notebook") from error

    @cached_property
    def text(self) -> str:
        """The text that is run, parsed and edited."""
        return text_of(self.cells)

    @property
    def left_out(self) -> tuple[tuple[int, str], ...]:
        """The commands that are not done, each with the number of its cell."""
        return tuple((cell.number, line) for cell in self.cells for line in cell.left_out)

    def sources(self, text: str) -> tuple[str, ...]:
        """Return the sources of the cells as an edited text has them.

        Raises `ValueError` where it has other cells, or changes a command to IPython.
        """
        return tuple(
            cell.source if code == cell.code else as_written(code, cell.code, cell.source)
            for cell, code in zip(self.cells, self._codes(text), strict=True)
        )

    def with_text(self, text: str) -> bytes:
        """Return the file with an edited text in its cells, all else as it was.

        To the last byte where it is laid out as Jupyter does it, or in another of `_LAYOUTS`.
        Raises `ValueError` as `sources` does.
        """
        before, whole = json.loads(self._raw), json.loads(self._raw)
        edited = zip(_code_cells(whole), self.cells, self.sources(text), strict=True)
        for written, cell, source in edited:
            if source != cell.source:
                lines = re.findall(r"[^\n]*\n|[^\n]+", source)
                written["source"] = source if isinstance(written["source"], str) else lines
        return json_like(self._raw, before, whole).encode()

    def _codes(self, text: str) -> Iterator[str]:
        before, *parts = _MARK.split(text)
        if parts[::2] != [str(cell.number) for cell in self.cells]:
            raise ValueError("the edit goes over the end of a cell")
        for cell, part in zip(self.cells, parts[1::2], strict=True):
            own_end = cell.code[len(cell.code.rstrip("\n")) :]
            first = before.strip("\n") + "\n" if before.strip() and cell.number == 1 else ""
            yield first + part[1:].rstrip("\n") + own_end


def json_like(text: str, before: object, after: object) -> str:
    """Return `after` as JSON in the layout of `text`, which is `before`; else in Jupyter's."""
    layouts = [{**how, "ensure_ascii": ascii} for how in _LAYOUTS for ascii in (False, True)]
    same = (how for how in layouts if json.dumps(before, **how) == text.rstrip())
    return json.dumps(after, **next(same, layouts[0])) + text[len(text.rstrip()) :]


def text_of(cells: Iterable[Cell]) -> str:
    """Return the code of cells, each at the lines that say its number."""
    lines: list[str] = []
    for cell in cells:
        lines += [""] * (cell.number * STRIDE - 1 - len(lines))
        lines += [f"# cell {cell.number} of the notebook", *cell.code.split("\n")]
    return "\n".join([*lines, ""])


def as_run(path: str, data: bytes) -> bytes:
    """Return what Python runs of a file: the file itself, the text of a notebook.

    Raises `NotANotebook`.
    """
    return Notebook(data).text.encode() if is_notebook(path) else data


def _code_cells(whole: dict[str, Any]) -> list[dict[str, Any]]:
    cells = whole["cells"]
    return [each for each in cells if each["cell_type"] == "code" and _source(each).strip()]


def _source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def _cells(whole: dict[str, Any]) -> Iterator[Cell]:
    language = whole.get("metadata", {}).get("kernelspec", {}).get("language", "python")
    if language.lower() != "python":
        raise NotANotebook(f"a notebook in {language}")
    for number, cell in enumerate(_code_cells(whole), start=1):
        source = _source(cell)
        if source.count("\n") + 2 > STRIDE:
            raise NotANotebook(f"cell {number} has more than {STRIDE - 2} lines")
        yield Cell(number, source, *as_python(source))

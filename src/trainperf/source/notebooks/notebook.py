"""A notebook as the text of a script, and back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from trainperf.recording.cells import STRIDE, is_notebook
from trainperf.source.notebooks.ipython import as_python, as_written

_MARK = re.compile(r"^# cell (\d+) of the notebook$", re.M)

_Extent = tuple[int, int]

_DECODER = json.JSONDecoder()
_BETWEEN = re.compile(r"[ \t\r\n,:]*")


class NotANotebook(ValueError):  # noqa: N818 - names an outcome; the message is the reason
    """A file that is no notebook of version 4, or not one in Python."""


@dataclass(frozen=True)
class Cell:
    """A cell with code. `number` counts those from 1.

    `source` is its text in the notebook, `code` what runs: as many lines, with no command to
    IPython. `left_out` are the commands that are not done. The JSON of the source stands from
    `start` to `end` in the file.
    """

    number: int
    source: str
    code: str
    left_out: tuple[str, ...]
    start: int
    end: int


class Notebook:
    """The code of a notebook, as one text whose line numbers say the cells (`recording.cells`).

    Raises `NotANotebook`.
    """

    def __init__(self, data: bytes) -> None:
        try:
            self._raw = data.decode()
            self.cells = tuple(_cells(self._raw))
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
        """Return the file with an edited text in its cells, all else to the last byte as it was.

        Raises `ValueError` as `sources` does.
        """
        parts, done = [], 0
        for cell, source in zip(self.cells, self.sources(text), strict=True):
            if source != cell.source:
                before = self._raw[cell.start : cell.end]
                parts += [self._raw[done : cell.start], _lines_like(before, source)]
                done = cell.end
        return "".join([*parts, self._raw[done:]]).encode()

    def _codes(self, text: str) -> Iterator[str]:
        before, *parts = _MARK.split(text)
        if parts[::2] != [str(cell.number) for cell in self.cells]:
            raise ValueError("the edit goes over the end of a cell")
        for cell, part in zip(self.cells, parts[1::2], strict=True):
            own_end = cell.code[len(cell.code.rstrip("\n")) :]
            first = before.strip("\n") + "\n" if before.strip() and cell.number == 1 else ""
            yield first + part[1:].rstrip("\n") + own_end


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


def _cells(raw: str) -> Iterator[Cell]:
    whole = json.loads(raw)
    language = whole.get("metadata", {}).get("kernelspec", {}).get("language", "python")
    if language.lower() != "python":
        raise NotANotebook(f"a notebook in {language}")
    start = len(raw) - len(raw.lstrip())
    extents = _items(raw, _member(raw, start, "cells")[0])
    number = 0
    for cell, (at, _) in zip(whole["cells"], extents, strict=True):
        source = "".join(cell["source"])
        if cell["cell_type"] != "code" or not source.strip():
            continue
        number += 1
        if source.count("\n") + 2 > STRIDE:
            raise NotANotebook(f"cell {number} has more than {STRIDE - 2} lines")
        yield Cell(number, source, *as_python(source), *_member(raw, at, "source"))


def _member(raw: str, start: int, name: str) -> _Extent:
    parts = list(_items(raw, start))
    names: list[str] = [json.loads(raw[slice(*key)]) for key in parts[::2]]
    return dict(zip(names, parts[1::2], strict=True))[name]


def _items(raw: str, start: int) -> Iterator[_Extent]:
    """Yield the extents of what an array holds, or of an object its keys and values in turn."""
    at = _after(raw, start + 1)
    while raw[at] not in "]}":
        end = _DECODER.raw_decode(raw, at)[1]
        yield at, end
        at = _after(raw, end)


def _lines_like(before: str, text: str) -> str:
    """Return a text as JSON in the way that `before` is written: a string, or a list of lines."""
    ascii_only = before.isascii() and "\\u" in before
    if before.startswith('"'):
        return json.dumps(text, ensure_ascii=ascii_only)
    extents = list(_items(before, 0))
    there = {json.loads(before[slice(*one)]): before[slice(*one)] for one in extents}
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    written = [there.get(line) or json.dumps(line, ensure_ascii=ascii_only) for line in lines]
    opening, closing = before[: extents[0][0]], before[extents[-1][1] :]
    between = f",{opening[1:] or ' '}"
    if len(extents) > 1:
        between = before[extents[0][1] : extents[1][0]]
    return opening + between.join(written) + closing


def _after(raw: str, at: int) -> int:
    found = _BETWEEN.match(raw, at)
    assert found is not None
    return found.end()

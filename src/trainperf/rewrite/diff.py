"""Unified diffs that `git apply` takes."""

from __future__ import annotations

import difflib
import re

from trainperf.errors import CannotRewrite
from trainperf.source.text import Source

_ENDLESS = re.compile(r"^\\ No newline at end of file\n", re.M)
"""Cells end without a line feed, which is nothing to tell."""

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def unified(path: str, before: str, after: str) -> str:
    """Return the diff of one file, '' if nothing changed.

    `path` is relative to the folder in which the patch will be applied, with `/`.
    Line endings stay as they are, so the text must be written without translation.
    """
    hunks = difflib.unified_diff(
        _lines(before),
        _lines(after),
        fromfile=_header("a/" + path),
        tofile=_header("b/" + path),
        lineterm="\n",
    )
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in hunks
    )


def of_file(path: str, source: Source, text: str) -> str:
    """Return the diff that makes `text` of a file, for `git apply`.

    Raises `CannotRewrite` where a file in another encoding than UTF-8 would not survive it.
    """
    if source.notebook is not None:
        return unified(path, source.data.decode(), source.encode(text).decode())
    diff = unified(path, source.mark + source.text, source.mark + text)
    if not source.encoding.startswith("utf-8") and not diff.isascii():
        raise CannotRewrite(f"{path} is in {source.encoding}, which a patch cannot carry")
    return diff


def shown(path: str, source: Source, text: str) -> str:
    """Return the diff of a file to be read: that of a notebook goes cell by cell."""
    if source.notebook is None:
        return of_file(path, source, text)
    before = [cell.source for cell in source.notebook.cells]
    cells = enumerate(zip(before, source.notebook.sources(text), strict=True), start=1)
    diffs = (unified(f"{path}, cell {n}", one, other) for n, (one, other) in cells)
    return "".join(_ENDLESS.sub("", each) for each in diffs)


def _lines(text: str) -> list[str]:
    """Split at line feeds only: form feeds and their like are part of a line."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _header(path: str) -> str:
    """Write a path as git does: quoted if need be, ended by a tab if it has spaces."""
    if any(char in _ESCAPES or ord(char) < 32 for char in path):
        quoted = "".join(
            _ESCAPES.get(char) or (f"\\{ord(char):03o}" if ord(char) < 32 else char)
            for char in path
        )
        return f'"{quoted}"'
    return path + "\t" if " " in path else path


def changed_lines(before: str, after: str) -> frozenset[int]:
    """The lines of a text that another one changes or leaves out, by their numbers before it."""
    parts = difflib.SequenceMatcher(None, _lines(before), _lines(after)).get_opcodes()
    spans = (range(start + 1, end + 1) for tag, start, end, _, _ in parts if tag != "equal")
    return frozenset(line for span in spans for line in span)

"""Unified diffs that `git apply` takes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

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


_RANGES = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def reverted(diff: str, path: str, after: str) -> str | None:
    """Return the text of a file before `diff`, given the text after it.

    `path` is as in `unified`. None where the file does not stand in the diff, or where
    the text is not what the diff leads to.
    """
    lines, result, position = _lines(after), [], 0
    for _, start, body in _hunks(diff, path):
        old, new = ([one[1:] for one in body if one[0] in kinds] for kinds in ("- ", "+ "))
        if lines[start : start + len(new)] != new:
            return None
        result += [*lines[position:start], *old]
        position = start + len(new)
    return "".join([*result, *lines[position:]]) if position or result else None


def changed_lines(diff: str, path: str) -> frozenset[int]:
    """The lines of a file that a diff changes or takes away, by their numbers before it."""
    return frozenset(
        line
        for first, _, body in _hunks(diff, path)
        for line, each in enumerate((one for one in body if one[0] in "- "), first)
        if each[0] == "-"
    )


def _hunks(diff: str, path: str) -> Iterator[tuple[int, int, list[str]]]:
    """Give the first old line of each hunk of a file, where it starts in the new text, its lines.

    Old lines are counted from 1; the new text is a list of lines.
    """
    lines, index, wanted = _lines(diff), 0, False
    while index < len(lines):
        line, index = lines[index], index + 1
        if line.startswith("+++ "):
            wanted = line == f"+++ {_header('b/' + path)}\n"
        ranges = _RANGES.match(line)
        if ranges is None:
            continue
        missing = {"-": int(ranges[2] or 1), "+": int(ranges[4] or 1)}
        body: list[str] = []
        while index < len(lines):
            line = lines[index]
            if line[0] == "\\" and body:
                body[-1] = body[-1].removesuffix("\n")  # the file ends without one
            elif line[0] in " -+" and any(missing.values()):
                body.append(line)
                for side in "-+" if line[0] == " " else line[0]:
                    missing[side] -= 1
            else:
                break
            index += 1
        if wanted:
            yield int(ranges[1]), int(ranges[3]) - (ranges[4] != "0"), body

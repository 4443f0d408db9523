"""Unified diffs that `git apply` takes."""

from __future__ import annotations

import difflib

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

"""Source and patches with their syntax in colour, as spans made here."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from trainperf.report.plain import dedented, plain

LONGEST_LINE = 2000
"""Characters of a line from which it is not coloured."""

_CLASSES = {
    "Token.Comment": "c",
    "Token.Keyword": "k",
    "Token.Literal.String": "s",
    "Token.Literal.Number": "m",
    "Token.Name.Builtin": "b",
    "Token.Name.Decorator": "d",
    "Token.Name.Function": "f",
    "Token.Name.Class": "f",
    "Token.Operator.Word": "k",
}


@dataclass(frozen=True)
class Line:
    """A line of a patch: "file", "hunk", "add", "del" or "" for one that stays."""

    kind: str
    text: Markup


def coloured(source: str, language: str) -> Markup:
    """Return source as it is to be pasted, its tokens in spans."""
    return Markup("\n").join(_spans(line, language) for line in dedented(source).split("\n"))


def patch_lines(diff: str) -> list[Line]:
    """Return the lines of a unified diff, that of Python coloured."""
    lines, language = [], "python"
    for line in _kept(diff).removesuffix("\n").split("\n"):
        kind = _kind(line)
        if kind == "file":
            python = line.rstrip().endswith(".py") or ".ipynb, cell " in line
            language = "python" if python else "text"
        if kind in ("file", "hunk"):
            lines.append(Line(kind, escape(line)))
        else:
            lines.append(Line(kind, escape(line[:1]) + _spans(line[1:], language)))
    return lines


def survives(diff: str) -> bool:
    """Whether a page can carry a diff to the last character, so that a copy of it applies.

    Carriage returns, control characters and bytes that are no text cannot be carried.
    """
    return _kept(diff) == diff


def _kept(diff: str) -> str:
    """The diff made safe; the blank before an empty line that stays is a part of it."""
    return "\n".join(plain(line) if line.strip(" ") else line for line in diff.split("\n"))


def _kind(line: str) -> str:
    if line.startswith(("--- ", "+++ ")):
        return "file"
    if line.startswith("@@"):
        return "hunk"
    return {"+": "add", "-": "del"}.get(line[:1], "")


def _spans(line: str, language: str) -> Markup:
    if len(line) > LONGEST_LINE or language == "text":
        return escape(line)
    return Markup("").join(
        Markup('<span class="{}">{}</span>').format(kind, text) if kind else escape(text)
        for kind, text in _tokens(line, language)
    )


def _tokens(line: str, language: str) -> Iterator[tuple[str, str]]:
    lexers: Any = importlib.import_module("pygments.lexers")  # 20 ms, only where there is code

    lexer = lexers.get_lexer_by_name(language, stripnl=False, ensurenl=False)
    kinds = ((_kind_of(str(token)), text) for token, text in lexer.get_tokens(line))
    for kind, group in itertools.groupby(kinds, key=lambda one: one[0]):
        yield kind, "".join(text for _, text in group)


def _kind_of(token: str) -> str:
    return next((kind for start, kind in _CLASSES.items() if token.startswith(start)), "")

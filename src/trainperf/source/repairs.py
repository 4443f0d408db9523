"""Repairs that need no thought: one literal of a place for another."""

from __future__ import annotations

import ast
from dataclasses import dataclass


@dataclass(frozen=True)
class Repair:
    """Text in place of a region of one line; line and columns count from 1, in characters.

    The end is exclusive.
    """

    line: int
    column: int
    end_column: int
    text: str


def literal(node: ast.expr | None, text: str) -> tuple[ast.AST, str] | None:
    """Put `text` in place of a literal; None where it is a name, or nothing."""
    return (node, text) if isinstance(node, ast.Constant) else None


def repair(node: ast.AST, text: str, line: str) -> Repair | None:
    """Return the repair that replaces `node`, which stands in `line`; None if in several."""
    first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
    if not first or first != last:
        return None
    start, end = (_column(line, getattr(node, name)) for name in ("col_offset", "end_col_offset"))
    return Repair(first, start, end, text)


def _column(line: str, offset: int) -> int:
    """A column in characters, from 1, for one in bytes, from 0."""
    return len(line.encode()[:offset].decode(errors="replace")) + 1

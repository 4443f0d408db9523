"""The user's source around a call: its loop, and whether it writes text."""

from __future__ import annotations

import ast
import linecache
import os
from functools import lru_cache
from typing import Any

WRITES = (
    "add_scalar",
    "add_scalars",
    "debug",
    "error",
    "format",
    "info",
    "log",
    "log_metric",
    "log_metrics",
    "print",
    "set_description",
    "set_description_str",
    "set_postfix",
    "set_postfix_str",
    "warning",
    "write",
    "writerow",
)
"""Names of functions and methods whose arguments go into text."""
LOOPS = (ast.For, ast.AsyncFor, ast.While)


def enclosing(place: Any) -> tuple[str, int, int]:
    """The file, the function's first line and the innermost loop's (0: none) of a place."""
    path = os.path.abspath(place.f_code.co_filename)
    first, line = place.f_code.co_firstlineno, place.f_lineno
    loops = [
        node.lineno
        for node in _nodes(path)
        if isinstance(node, LOOPS) and first <= node.lineno <= line <= (node.end_lineno or 0)
    ]
    return path, first, max(loops, default=0)


def goes_into_text(site: dict[str, Any]) -> bool:
    """Whether what is called at a site is printed, logged or put into an f-string there."""
    line, end_line = site["line"], site.get("end_line") or site["line"]
    begins, ends = (line, site.get("col") or 0), (end_line, site.get("end_col") or 0)
    for node in _nodes(site["file"]):
        if not isinstance(node, ast.JoinedStr) and not _writes(node):
            continue
        if _start(node) <= begins and ends <= (node.end_lineno or 0, _end_column(node)):
            return True
    return False


def _start(node: Any) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end_column(node: Any) -> int:
    return int(node.end_col_offset or 0)


def _writes(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = getattr(node.func, "id", "") or getattr(node.func, "attr", "")
    return name in WRITES


@lru_cache(maxsize=16)
def _nodes(path: str) -> tuple[Any, ...]:
    """The expressions and statements of a file as it runs; none if it cannot be read."""
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):
        return ()
    return tuple(node for node in ast.walk(tree) if hasattr(node, "lineno"))

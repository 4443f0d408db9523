"""The user's source around a call: its loop, and whether it writes text."""

from __future__ import annotations

import ast
import os
from typing import Any

from ...process import turns

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
    loops = turns.nodes_around(place, LOOPS)
    return path, place.f_code.co_firstlineno, loops[0].lineno if loops else 0


def goes_into_text(site: dict[str, Any]) -> bool:
    """Whether what is called at a site is printed, logged or put into an f-string there."""
    line, end_line = site["line"], site.get("end_line") or site["line"]
    begins, ends = (line, site.get("col") or 0), (end_line, site.get("end_col") or 0)
    for node in turns.nodes_of(site["file"]):
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

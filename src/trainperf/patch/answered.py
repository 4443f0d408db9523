"""Findings that a patch answers: it edits the code they tell of."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Sequence

from trainperf.errors import CannotRewrite
from trainperf.model import Finding, Patch, Site
from trainperf.recording.cells import is_notebook
from trainperf.rewrite.diff import changed_lines
from trainperf.rewrite.editing import Reader
from trainperf.source.scopes import FUNCTIONS, LOOPS
from trainperf.source.text import parsed


def answered(
    findings: Iterable[Finding], patch: Patch, training: Site | None, read: Reader
) -> tuple[Finding, ...]:
    """The findings all of whose places the patch edits.

    It edits a place where it changes its statement, or the innermost loop around it: but for
    the loop that trains, at `training`, whose steps hold all that is left to be found.
    """
    return tuple(
        one
        for one in findings
        if one.where and all(_edits(patch, place, training, read) for place in one.where)
    )


def _edits(patch: Patch, place: Site, training: Site | None, read: Reader) -> bool:
    changed = changed_lines(patch.diff, os.path.relpath(place.file, patch.root).replace("\\", "/"))
    if not changed or is_notebook(place.file):
        return False
    try:
        around = [node for node, _ in parsed(place.file, read(place.file)).around(place)]
    except (OSError, ValueError, CannotRewrite):
        return False
    return bool(changed & _lines_of(around, place, training))


def _lines_of(around: Sequence[ast.stmt], place: Site, training: Site | None) -> set[int]:
    """The lines of the innermost statement, its head where it holds others, and of the loop."""
    inner, loop = around[-1], None
    body = getattr(inner, "body", None)
    lines = set(range(inner.lineno, body[0].lineno if body else _end(inner) + 1))
    for node in around:
        if isinstance(node, LOOPS):
            loop = node
        elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            loop = None
    if loop is None or training is None:
        return lines
    trains = training.file == place.file and loop.lineno <= training.line <= _end(loop)
    return lines if trains else lines | set(range(loop.lineno, _end(loop) + 1))


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno

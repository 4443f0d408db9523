"""Refusals, before any edit is made."""

from __future__ import annotations

import ast
import os
import sysconfig
from functools import cache
from pathlib import Path

from trainperf.errors import CannotRewrite
from trainperf.rewrite import imports


def check_users(path: str, root: str) -> None:
    """Refuse files that are not the user's own."""
    parts = Path(path).parts
    if (
        not path.startswith(os.path.join(root, ""))
        or "site-packages" in parts
        or "dist-packages" in parts
        or path.startswith(_libraries())
    ):
        raise CannotRewrite("library files are never edited")


@cache
def _libraries() -> tuple[str, ...]:
    """The folders of Python's own library."""
    folders = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")]
    return tuple(os.path.realpath(each) + os.sep for each in folders)


def check_expression(text: str) -> None:
    """Refuse text that is not one expression, or that would be two arguments."""
    try:
        call = ast.parse(f"_({text})", mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise CannotRewrite(f"not an expression: {text!r}") from error
    if not isinstance(call, ast.Call) or len(call.args) != 1 or call.keywords:
        raise CannotRewrite(f"not an expression: {text!r}")


def names_imported(statement: str) -> set[str]:
    """Return the names a statement's imports bind; refuse what is no statement."""
    try:
        return imports.names_imported(statement)
    except (SyntaxError, ValueError) as error:
        raise CannotRewrite(f"not a statement: {statement!r}") from error

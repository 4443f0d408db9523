"""Arguments of a call, by name and by place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import takewhile

from trainperf.errors import CannotRewrite
from trainperf.source.statements import Function, parameters


def keyword(call: ast.Call, name: str) -> ast.keyword | None:
    """Return the keyword argument `name` where it is written out."""
    return next((each for each in call.keywords if each.arg == name), None)


def written(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """Return the argument that a call names or has at `position`, None where there is none.

    Raises `CannotRewrite` where a `*` before it hides which one that is.
    """
    named = keyword(call, name)
    if named is not None:
        return named.value
    placed = [] if position is None else call.args[: position + 1]
    if any(isinstance(each, ast.Starred) for each in placed):
        raise CannotRewrite("the arguments are passed as *args")
    return placed[-1] if position is not None and len(placed) > position else None


def argument(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """Return the argument given by keyword or at `position`; None where none is to be seen."""
    try:
        return written(call, name, position)
    except CannotRewrite:
        return None


def starred(call: ast.Call) -> bool:
    """Tell whether `*args` or `**kwargs` may give arguments that are not seen here."""
    return any(isinstance(each, ast.Starred) for each in call.args) or any(
        each.arg is None for each in call.keywords
    )


def handed(function: Function, call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """Yield the parameters of a function with what a call of it gives them, `self` left out."""
    names = parameters(function)
    names = names[1:] if names[:1] in (["self"], ["cls"]) else names
    placed = takewhile(lambda each: not isinstance(each, ast.Starred), call.args)
    yield from zip(names, placed, strict=False)
    yield from ((each.arg, each.value) for each in call.keywords if each.arg is not None)

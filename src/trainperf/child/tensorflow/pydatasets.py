"""The user's part of a `PyDataset`: where it makes a batch, and whether it draws for it."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from ..process import frames

MOST_FUNCTIONS = 200


def item(dataset: Any) -> dict[str, Any] | None:
    """Where the user defines what makes a batch; None where a library or a decorator does."""
    function = getattr(type(dataset), "__getitem__", None)
    if not isinstance(function, FunctionType) or not frames.is_users(function.__code__.co_filename):
        return None
    return frames.definition(function.__code__) if function.__name__ == "__getitem__" else None


def draws(dataset: Any) -> bool | None:
    """Whether the code that makes a batch names a random generator; None if it cannot be read.

    The user's own functions and methods that it calls count, and no library's.
    """
    cls = type(dataset)
    try:
        return any(_names_one(code) for code in _reached(cls, getattr(cls, "__getitem__", None)))
    except Exception:  # a class may answer `getattr` as it likes
        return None


def _names_one(code: CodeType) -> bool:
    names = [name.lower() for name in (*code.co_names, *code.co_freevars, *code.co_varnames)]
    return any("random" in name or "rng" in name.split("_") for name in names)


def _reached(cls: type, start: Any) -> Iterator[CodeType]:
    """The user's code that `start` calls by a name of its class or module, its own first."""
    todo, seen = [start], set[CodeType]()
    while todo and len(seen) < MOST_FUNCTIONS:
        function = todo.pop()
        function = getattr(function, "__wrapped__", function)
        if not isinstance(function, FunctionType) or not frames.is_users(
            function.__code__.co_filename
        ):
            continue
        for code in _with_inner(function.__code__):
            if code in seen:
                continue
            seen.add(code)
            yield code
            for name in code.co_names:
                todo += [getattr(cls, name, None), function.__globals__.get(name)]


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    """A function's code, and that of the lambdas and comprehensions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_inner(constant)

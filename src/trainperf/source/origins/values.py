"""The places that a value may come from."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from trainperf.source.module import Module

TYPES = (int, bool, float, str, type(None))
"""Of what literals are followed: those that can be compared with what the run had."""

Node = tuple[Module, ast.expr]


@dataclass(frozen=True)
class Origin:
    """A literal that an argument may have its value from.

    `options` are the names by which the command line may choose another (`--workers`, `-j`);
    `choices` are all values the option takes, None for any. `caller` says that the literal is
    what a caller of a function passes: every caller has its own.
    """

    file: Module
    node: ast.expr
    value: object
    options: tuple[str, ...] = ()
    choices: tuple[object, ...] | None = None
    caller: bool = False


@dataclass(frozen=True)
class Unknown:
    """A value that cannot be told from the source, and why.

    `derived` says that it is worked out from what the name held before. `elsewhere` says that
    it stands in a file that is no source, where it is to be changed.
    """

    reason: str
    derived: bool = False
    elsewhere: bool = False
    options: tuple[str, ...] = ()


Value = Origin | Unknown


Given = Value | tuple[Module, ast.expr | ast.arg]
"""What is bound to a name or an entry: a value, or an expression or parameter of a file."""


@dataclass(frozen=True)
class Contents:
    """The known contents of an object by name: attributes, or the entries of a dictionary.

    `entries` gives for each name the expressions it may have. `open` is why there may be more.
    `displays` are the dictionaries or calls that wrote it out, the last one last.
    """

    entries: dict[str, tuple[Node | Value, ...]] = field(default_factory=dict)
    open: Unknown | None = None
    displays: tuple[Node, ...] = ()


def literal(node: ast.expr) -> tuple[object] | None:
    """Return the value of a literal as the one of a tuple; None for any other expression."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return None
    return (value,) if type(value) in TYPES else None


def same(one: object, other: object) -> bool:
    """Whether two values are the same, a number and a truth never."""
    return (type(one) is bool) == (type(other) is bool) and one == other


def unknown(reason: str) -> tuple[Unknown, ...]:
    """One value that cannot be told."""
    return (Unknown(reason),)


def known(values: Sequence[Value]) -> list[Origin]:
    """Those of the values that are literals."""
    return [each for each in values if isinstance(each, Origin)]

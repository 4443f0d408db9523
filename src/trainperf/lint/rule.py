"""Rules: functions over a file's source, and rows for the settings that a file may have."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from trainperf.source.arguments import argument, keyword
from trainperf.source.loops import backward_loops
from trainperf.source.module import UNKNOWN, Module
from trainperf.source.statements import last_name, variables

MEASURE = "`trainperf diagnose` measures it."


@dataclass(frozen=True)
class Repair:
    """Text in place of a region of one line; line and columns count from 1, in characters.

    The end is exclusive.
    """

    line: int
    column: int
    end_column: int
    text: str


@dataclass(frozen=True)
class Remark:
    """One place of a file and what it suggests. Lines and columns count from 1.

    Columns count characters. `last_line` is the end of the place: an inline comment on
    any line between turns the remark off. `repair` is what may be put in its place.
    `cell` is the number of a notebook's cell, in which lines count; 0 in other files.
    """

    id: str
    line: int
    column: int
    last_line: int
    text: str
    repair: Repair | None = None
    path: Path = Path()
    cell: int = 0


class Place(NamedTuple):
    """A place that a rule sees something in, what that is, and what may be put there instead."""

    node: ast.AST
    seen: str
    repair: Repair | None = None


Check = Callable[[Module], Iterator[Place]]


@dataclass(frozen=True)
class Rule:
    """A check of source alone for one fix, whose id it has; several may be for the same.

    `summary` is what is looked for. One of `words` stands in every source that `places` may see
    something in: others are not parsed. `why` says why that may be slow, without a full stop;
    that only a run tells is added.
    """

    id: str
    summary: str
    words: tuple[str, ...]
    why: str
    places: Check

    def concerns(self, source: str) -> bool:
        """Tell quickly whether the rule could remark on anything in `source`."""
        return any(word in source for word in self.words)

    def remarks(self, module: Module) -> Iterator[Remark]:
        """Yield what the rule has to say of a file."""
        for node, seen, repair in self.places(module):
            line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
            column = _column(module.line(line), column)
            text = f"{seen}: {self.why}. {MEASURE}"
            yield Remark(self.id, line, column, _last_line(node, line), text, repair)


def rule(words: str, why: str) -> Callable[[Check], Rule]:
    """Make a rule of a function: its name is the id, its docstring says what is looked for."""

    def made(places: Check) -> Rule:
        summary = " ".join((inspect.getdoc(places) or "").split())
        return Rule(places.__name__, summary, tuple(words.split()), why, places)

    return made


def row(id_: str, summary: str, why: str, *settings: Argument | Assignment | Variable) -> Rule:
    """Make a rule of settings. `repair` of one is what may stand in place of a literal there."""

    def places(module: Module) -> Iterator[Place]:
        for setting in settings:
            yield from setting.places(module)

    words = tuple(word for setting in settings for word in setting.words)
    return Rule(id_, summary, words, why, places)


@dataclass(frozen=True)
class Argument:
    """An argument whose value is one of `values`, or with `other` a constant that is none of them.

    `callees` are dotted names, ".compile" is the method of any object. A value is a constant,
    or the dotted name of what is given or called. A call that has one of `unless` as well is
    meant so; with `training` only files that train are looked at. A call that is a statement
    sets something for all that follows: nothing is seen where the file sets it otherwise too.
    """

    callees: tuple[str, ...]
    name: str
    position: int | None
    values: Sequence[object]
    repair: str = ""
    other: bool = False
    unless: tuple[str, ...] = ()
    training: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The argument, or what is called where it may stand without its name."""
        return (self.name,) if self.position is None else tuple(map(_last, self.callees))

    def places(self, module: Module) -> Iterator[Place]:
        """Yield the calls with such an argument."""
        calls = [call for callee in self.callees for call in _calls(module, callee)]
        given = [(call, argument(call, self.name, self.position)) for call in calls]
        found = [(call, value) for call, value in given if value is not None]
        for call, value in found:
            whole = isinstance(module.parent(call), ast.Expr)
            judged = [other for _, other in found] if whole else [value]
            meant = any(keyword(call, name) for name in self.unless) or module.conditional(call)
            if meant or not all(self._has(module, other) for other in judged):
                continue
            if self.training and not backward_loops(module):
                continue
            named = keyword(call, self.name)
            written = f"{self.name}=" * (named is not None) + ast.unparse(module.value(value))
            repair = _repair(module, value, named if "=" in self.repair else value, self.repair)
            yield Place(call, f"{last_name(call.func)}({written})", repair)

    def _has(self, module: Module, given: ast.expr) -> bool:
        constant = module.constant(given)
        if self.other:
            return constant is not UNKNOWN and constant not in self.values
        return (constant if constant is not UNKNOWN else _named(module, given)) in self.values


@dataclass(frozen=True)
class Assignment:
    """A flag, by its dotted name or as ".attribute", that every assignment of the file sets so.

    One of `unless` in the source says that it is meant.
    """

    target: str
    value: bool
    repair: str = ""
    unless: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The last part of the name."""
        return (_last(self.target),)

    def places(self, module: Module) -> Iterator[Place]:
        """Yield the assignments."""
        found = [node for node in module.nodes if isinstance(node, ast.Assign)]
        found = [node for node in found if any(self._is(module, one) for one in node.targets)]
        meant = any(module.constant(node.value) is not self.value for node in found)
        if meant or any(word in module.source.lower() for word in self.unless):
            return
        for node in found:
            if not module.conditional(node):
                repair = _repair(module, node.value, node.value, self.repair)
                yield Place(node, ast.unparse(node), repair)

    def _is(self, module: Module, target: ast.expr) -> bool:
        if not self.target.startswith("."):
            return module.name(target) == self.target
        own = isinstance(target, ast.Attribute) and last_name(target.value) == "self"
        return isinstance(target, ast.Attribute) and f".{target.attr}" == self.target and not own


@dataclass(frozen=True)
class Variable:
    """A variable of the environment that the script itself sets to a value, in any case."""

    name: str
    value: str

    @property
    def words(self) -> tuple[str, ...]:
        """The variable."""
        return (self.name,)

    def places(self, module: Module) -> Iterator[Place]:
        """Yield where it is set."""
        for node, name, value in variables(module):
            if name == self.name and value.lower() == self.value.lower():
                yield Place(node, f"{name}={value}")


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _calls(module: Module, callee: str) -> Iterator[ast.Call]:
    return module.methods(callee[1:]) if callee.startswith(".") else module.calls(callee)


def _named(module: Module, node: ast.expr) -> str | None:
    """Return the dotted name of what is given, or called, first of all in `a() or b`."""
    node = module.value(node)
    if isinstance(node, ast.BoolOp):
        node = module.value(node.values[0])
    return module.name(node.func if isinstance(node, ast.Call) else node)


def _last_line(node: ast.AST, line: int) -> int:
    body = getattr(node, "body", None)
    if isinstance(body, list) and body:
        return max(line, int(body[0].lineno) - 1)
    return getattr(node, "end_lineno", None) or line


def _repair(
    module: Module, literal: ast.expr, replaced: ast.expr | ast.keyword | None, text: str
) -> Repair | None:
    """Return `text` in place of a literal, or of the argument that it is; None for a name."""
    if not text or replaced is None or not isinstance(literal, ast.Constant):
        return None
    line, end = module.line(replaced.lineno), replaced.end_col_offset or 0
    if replaced.lineno != replaced.end_lineno:
        return None
    return Repair(replaced.lineno, _column(line, replaced.col_offset), _column(line, end), text)


def _column(line: str, offset: int) -> int:
    """A column in characters, from 1, for one in bytes, from 0."""
    return len(line.encode()[:offset].decode(errors="replace")) + 1

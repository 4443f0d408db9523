"""Rules: functions over a file's source, and rows for the settings that a file may have."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
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
    """A place that a rule sees something in, what that is, and what may be put there instead.

    `repair` is a literal, or the argument that it is, with the text in place of it.
    """

    node: ast.AST
    seen: str
    repair: tuple[ast.expr | ast.keyword, str] | None = None


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
            body = getattr(node, "body", None)
            head = max(line, body[0].lineno - 1) if isinstance(body, list) and body else 0
            yield Remark(
                self.id,
                line,
                _column(module, line, column),
                head or getattr(node, "end_lineno", None) or line,
                f"{seen}: {self.why}. {MEASURE}",
                None if repair is None else _repair(module, *repair),
            )


def _repair(module: Module, replaced: ast.expr | ast.keyword, text: str) -> Repair | None:
    line, ends = replaced.lineno, (replaced.col_offset, replaced.end_col_offset or 0)
    if line != replaced.end_lineno:
        return None
    start, end = (_column(module, line, offset) for offset in ends)
    return Repair(line, start, end, text)


def _column(module: Module, line: int, offset: int) -> int:
    """A column in characters, from 1, for one in bytes, from 0."""
    return len(module.line(line).encode()[:offset].decode(errors="replace")) + 1


def rule(words: str, why: str) -> Callable[[Check], Rule]:
    """Make a rule of a function: its name is the id, its docstring says what is looked for."""

    def made(places: Check) -> Rule:
        summary = " ".join((inspect.getdoc(places) or "").split())
        return Rule(places.__name__, summary, tuple(words.split()), why, places)

    return made


def row(id_: str, summary: str, why: str, *settings: Argument | Assignment | Variable) -> Rule:
    """Make a rule of settings."""

    def places(module: Module) -> Iterator[Place]:
        return chain.from_iterable(setting.places(module) for setting in settings)

    words = tuple(word for setting in settings for word in setting.words)
    return Rule(id_, summary, words, why, places)


@dataclass(frozen=True)
class Argument:
    """An argument whose value is one of `values`, or with `other` a constant that is none of them.

    `callees` are dotted names, ".compile" is the method of any object. A value is a constant,
    or the dotted name of what is given or called; `repair` is what may stand in place of a
    literal, or of the argument. A call that has one of `unless` as well is meant so; with
    `training` only files that train are looked at. A call that is a statement sets something for
    all that follows: nothing is seen where the file sets it otherwise too.
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
        given: list[tuple[ast.Call, ast.expr]] = []
        for callee in self.callees:
            named = module.methods(_last(callee)) if callee[0] == "." else module.calls(callee)
            found = ((call, argument(call, self.name, self.position)) for call in named)
            given += [(call, value) for call, value in found if value is not None]
        for call, value in given if not self.training or backward_loops(module) else ():
            whole = isinstance(module.parent(call), ast.Expr)
            judged = [other for _, other in given] if whole else [value]
            meant = any(keyword(call, name) for name in self.unless) or module.conditional(call)
            if meant or not all(self._has(module, other) for other in judged):
                continue
            name = keyword(call, self.name)
            written = f"{self.name}=" * (name is not None) + ast.unparse(module.value(value))
            replaced = name if "=" in self.repair else value
            able = self.repair and isinstance(value, ast.Constant)
            repair = (replaced, self.repair) if able and replaced is not None else None
            yield Place(call, f"{last_name(call.func)}({written})", repair)

    def _has(self, module: Module, given: ast.expr) -> bool:
        constant = module.constant(given)
        if self.other:
            return constant is not UNKNOWN and constant not in self.values
        if constant is not UNKNOWN:
            return constant in self.values
        node = module.value(given)  # the dotted name of what is called, first of all in `a() or b`
        node = module.value(node.values[0]) if isinstance(node, ast.BoolOp) else node
        return module.name(node.func if isinstance(node, ast.Call) else node) in self.values


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
            able = self.repair and isinstance(node.value, ast.Constant)
            if not module.conditional(node):
                yield Place(node, ast.unparse(node), (node.value, self.repair) if able else None)

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

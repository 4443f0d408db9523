"""Dictionaries that are written out, merged and updated on the way to a call."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product

from trainperf.source.module import Module
from trainperf.source.origins.project import Tracing
from trainperf.source.origins.values import Contents, Node, Unknown, Value, literal
from trainperf.source.scopes import FUNCTIONS, Scope
from trainperf.source.statements import last_name, names_in

MAKERS = ("dict", "SimpleNamespace", "Namespace", "EasyDict", "ConfigDict", "Munch")
"""Makers of an object that holds the keywords given to them."""

MOST = 32
"""A dictionary that may be in more states than this is worked out."""

METHODS = ("update", "setdefault", "pop", "clear", "__setitem__")


def written(trace: Tracing, file: Module, node: ast.expr) -> tuple[Contents, ...] | None:
    """Return what a display `{…}`, `dict(…)` or `a | b` may hold; None for what is none."""
    if isinstance(node, ast.Dict):
        return _display(trace, file, node)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return merged(trace.objects(file, node.left), trace.objects(file, node.right))
    if not isinstance(node, ast.Call) or last_name(node.func) not in MAKERS:
        return None
    if any(isinstance(each, ast.Starred) for each in node.args) or len(node.args) > 1:
        return (Contents(open=Unknown("it is worked out")),)
    states = trace.objects(file, node.args[0]) if node.args else (Contents(),)
    return _shown(given(trace, file, node.keywords, states), (file, node))


def given(
    trace: Tracing,
    file: Module,
    keywords: Iterable[ast.keyword],
    states: tuple[Contents, ...] = (Contents(),),
) -> tuple[Contents, ...]:
    """Return what dictionaries hold once the keywords of a call were put into them."""
    for each in keywords:
        if each.arg is None:
            states = merged(states, trace.objects(file, each.value))
        else:
            states = _put(states, each.arg, (file, each.value))
    return states


def _display(trace: Tracing, file: Module, node: ast.Dict) -> tuple[Contents, ...]:
    states: tuple[Contents, ...] = (Contents(),)
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            states = merged(states, trace.objects(file, value))
            continue
        name = literal(key)
        if name is None or not isinstance(name[0], str):
            states = opened(states, "a key is worked out")
            continue
        states = _put(states, name[0], (file, value))
        if sum(literal(each) == name for each in node.keys if each is not None) > 1:
            states = opened(states, f"{name[0]} stands there twice")
    return _shown(states, (file, node))


def merged(states: Sequence[Contents], others: Sequence[Contents]) -> tuple[Contents, ...]:
    """Return what dictionaries hold once others were merged into them."""
    found = [
        Contents(
            {
                **(_open_all(one, other.open) if other.open else one.entries),
                **other.entries,
            },
            one.open or other.open,
            (*one.displays, *other.displays),
        )
        for one, other in product(states, others)
    ]
    return tuple(found) if len(found) <= MOST else opened(found[:1], "it may be in many states")


def _open_all(held: Contents, reason: Unknown) -> dict[str, tuple[Node | Value, ...]]:
    return {name: (*values, reason) for name, values in held.entries.items()}


def opened(states: Iterable[Contents], reason: str) -> tuple[Contents, ...]:
    """Say of dictionaries that anything may be in them."""
    no = Unknown(reason)
    return tuple(replace(each, entries=_open_all(each, no), open=no) for each in states)


def _put(states: Iterable[Contents], name: str, value: Node) -> tuple[Contents, ...]:
    return tuple(replace(each, entries={**each.entries, name: (value,)}) for each in states)


def _shown(states: Iterable[Contents], display: Node) -> tuple[Contents, ...]:
    return tuple(replace(each, displays=(*each.displays, display)) for each in states)


# ----------------------------------------------------------- built by statements


def built(trace: Tracing, file: Module, node: ast.Name) -> tuple[Contents, ...] | None:
    """Return what a variable may hold where `node` reads it, by the statements before.

    None where it is not only ever assigned in one function, or at the top of a file.
    """
    scope = _scope(file, node)
    body = getattr(scope.node, "body", None) if scope is not None else None
    if scope is None or not isinstance(body, list) or isinstance(scope.node, ast.ClassDef):
        return None
    bindings = scope.bindings[node.id]
    kinds = (ast.Assign, ast.AnnAssign)
    if any(each.kind != "value" or not isinstance(each.node, kinds) for each in bindings):
        return None
    if any(isinstance(e.node, ast.Assign) and len(e.node.targets) > 1 for e in bindings):
        return None
    around = {id(node), *(id(each) for each in file.around(node))}
    states, _ = _Run(trace, file, node.id, around).block(body, ())
    return states or None


def _scope(file: Module, node: ast.Name) -> Scope | None:
    scope: Scope | None = file.scope(node)
    while scope is not None and node.id not in scope.bindings:
        scope = scope.parent
    return scope


class _Run:
    """The statements of a block, one after the other, as far as they concern a dictionary."""

    def __init__(self, trace: Tracing, file: Module, name: str, around: set[int]) -> None:
        self.trace, self.file, self.name, self.around = trace, file, name, around

    def block(
        self, body: list[ast.stmt], states: tuple[Contents, ...]
    ) -> tuple[tuple[Contents, ...], bool]:
        """Return the states after a block, or at the target, and whether it stands there."""
        for statement in body:
            if id(statement) in self.around:
                if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
                    continue  # it is read later, when all was done
                inner = [e for e in _blocks(statement) if any(id(s) in self.around for s in e)]
                if not inner:
                    return states, True
                return self.block(inner[0], states)[0], True
            if self._concerns(statement):
                states = self._after(statement, states)
        return states, False

    def _concerns(self, statement: ast.stmt) -> bool:
        return self.name in names_in(statement)

    def _after(self, statement: ast.stmt, states: tuple[Contents, ...]) -> tuple[Contents, ...]:
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            return states
        if isinstance(statement, ast.If):
            body, _ = self.block(statement.body, states)
            orelse, _ = self.block(statement.orelse, states)
            return (*body, *orelse)[:MOST]
        if isinstance(statement, ast.For | ast.While | ast.Try | ast.With):
            found = states if isinstance(statement, ast.For | ast.While) else ()
            for inner in _blocks(statement):
                found = (*found, *self.block(inner, states)[0])
            return tuple(found)[:MOST]
        return self._simple(statement, states)

    def _simple(self, statement: ast.stmt, states: tuple[Contents, ...]) -> tuple[Contents, ...]:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            many = isinstance(statement, ast.Assign)
            target = statement.targets[0] if many else statement.target  # type: ignore
            if isinstance(target, ast.Name) and target.id == self.name:
                return self.trace.objects(self.file, statement.value)
            if isinstance(target, ast.Subscript) and self._is(target.value):
                return self._set(states, target.slice, statement.value)
        if isinstance(statement, ast.AugAssign) and self._is(statement.target):
            return merged(states, self.trace.objects(self.file, statement.value))
        if isinstance(statement, ast.Delete):
            return opened(states, "an entry is taken out of it")
        call = statement.value if isinstance(statement, ast.Expr) else None
        method = call.func if isinstance(call, ast.Call) else None
        if isinstance(method, ast.Attribute) and self._is(method.value):
            assert isinstance(call, ast.Call)
            return self._method(call, states)
        return opened(states, "it may be changed elsewhere") if self._handed(statement) else states

    def _method(self, call: ast.Call, states: tuple[Contents, ...]) -> tuple[Contents, ...]:
        called = last_name(call.func)
        if called == "update" and len(call.args) <= 1:
            for each in call.args:
                states = merged(states, self.trace.objects(self.file, each))
            return given(self.trace, self.file, call.keywords, states)
        return opened(states, f"{called} changes it") if called in METHODS else states

    def _set(
        self, states: Sequence[Contents], key: ast.expr, value: ast.expr
    ) -> tuple[Contents, ...]:
        name = literal(key)
        if name is None or not isinstance(name[0], str):
            return opened(states, "a key is worked out")
        return _put(states, name[0], (self.file, value))

    def _is(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == self.name

    def _handed(self, statement: ast.stmt) -> bool:
        """Whether a function of these files is given the dictionary itself, and changes one."""
        for node in ast.walk(statement):
            given = node.args if isinstance(node, ast.Call) else []
            if not isinstance(node, ast.Call) or not any(self._is(each) for each in given):
                continue
            found = self.file.defined(node.func)
            if found is not None and any(_changes(each) for each in ast.walk(found[1])):
                return True
        return False


def _changes(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript):
        return not isinstance(node.ctx, ast.Load)
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    return called and last_name(node.func) in METHODS  # type: ignore


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(statement, name, None)
        if isinstance(block, list) and block:
            yield block
    for each in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield each.body

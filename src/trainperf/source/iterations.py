"""Iterations of a loop: whether one needs what another left, so that they may run beside it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from trainperf.source.scopes import FUNCTIONS, Function
from trainperf.source.statements import dotted, names_in

_INNER = (*FUNCTIONS, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LATER = (*_COMPREHENSIONS, ast.Lambda)
_LEAVES = (ast.Continue, ast.Break, ast.Return, ast.Raise)

ONCE = ("enumerate", "filter", "iter", "map", "open", "reversed", "zip")
"""Functions of Python whose result is gone through once."""


def of_this_function(statements: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield every node of some statements but those of functions and classes defined there."""
    stack = list(statements)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, _INNER):
            stack.extend(ast.iter_child_nodes(node))


def stored(statements: Iterable[ast.AST]) -> set[str]:
    """Return the names that some statements bind in their function's scope."""
    statements = list(statements)
    found: set[str] = set()
    within = {
        id(name)
        for node in of_this_function(statements)
        if isinstance(node, _COMPREHENSIONS)
        for each in node.generators
        for name in ast.walk(each.target)
    }
    for node in of_this_function(statements):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found |= {node.id} if id(node) not in within else set()
        elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(each.asname or each.name).partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            found.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            found.add(node.rest)
    return found


def loaded(statements: Iterable[ast.AST]) -> set[str]:
    """Return the names that some statements read, add to or delete, inner functions and all."""
    return _read_in(node for each in statements for node in ast.walk(each))


def _read_in(nodes: Iterable[ast.AST]) -> set[str]:
    found: set[str] = set()
    for node in nodes:
        name = node.target if isinstance(node, ast.AugAssign) else node
        if isinstance(name, ast.Name) and (name is not node or not isinstance(name.ctx, ast.Store)):
            found.add(name.id)
    return found


def outside(scope: Iterable[ast.AST], part: Iterable[ast.AST]) -> list[ast.AST]:
    """Return the nodes of some code but those of a part of it."""
    within = {id(node) for each in part for node in ast.walk(each)}
    return [node for each in scope for node in ast.walk(each) if id(node) not in within]


def read_outside(scope: Iterable[ast.AST], part: Iterable[ast.AST]) -> set[str]:
    """Return the names that some code reads, adds to or deletes, but in a part of it."""
    return _read_in(outside(scope, part))


def of_own_loop(body: Sequence[ast.stmt], kind: type[ast.stmt]) -> list[ast.stmt]:
    """Return the `continue` or `break` statements in a body that belong to its own loop."""
    found, stack = [], list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, kind):
            found.append(node)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.While):
            stack += node.orelse
        elif not isinstance(node, _INNER):
            stack += list(_statements(node))
    return found


def _statements(node: ast.stmt) -> Iterator[ast.stmt]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            yield from child.body


def declared(function: ast.AST) -> set[str]:
    """Return the names that are `global` or `nonlocal` in a function, or in those within it."""
    found = (n for n in ast.walk(function) if isinstance(n, ast.Global | ast.Nonlocal))
    return {name for each in found for name in each.names}


def may_be_sequence(node: ast.expr) -> bool:
    """Whether nothing tells that what an expression gives has no length or no order."""
    once = isinstance(node, ast.Call) and dotted(node.func) in ONCE
    unordered = ast.Dict | ast.DictComp | ast.Set | ast.SetComp | ast.GeneratorExp
    return not once and not isinstance(node, unordered)


# ------------------------------------------------------------------ names handed on


def carried(
    body: Sequence[ast.stmt],
    given: Iterable[str] = (),
    names: set[str] | None = None,
    without: ast.stmt | None = None,
) -> str:
    """Return a name that an iteration may read before it has bound it, '' if there is none.

    It then holds what an earlier iteration left. `given` are the loop's own targets; `names`
    those that are asked for, all that the body binds unless given. The statement `without`
    is passed over.
    """
    flow = _Flow(stored(body) if names is None else names, without)
    flow.run(body, frozenset(given))
    return next(iter(flow.early), "")


def read_first(body: Sequence[ast.stmt], names: set[str]) -> list[str]:
    """Return those of some names that a body may read before it has bound them."""
    flow = _Flow(names, None)
    flow.run(body, frozenset())
    return list(flow.early)


def surely_bound(body: Sequence[ast.stmt]) -> frozenset[str]:
    """Return the names that are bound whichever way a body is gone through to its end."""
    return _Flow(set(), None).run(body, frozenset()) or frozenset()


class _Flow:
    """Definite assignment: which names are surely bound where one is read."""

    def __init__(self, names: set[str], without: ast.stmt | None) -> None:
        self.names, self.without = names, without
        self.early: dict[str, None] = {}

    def run(self, body: Sequence[ast.stmt], bound: frozenset[str]) -> frozenset[str] | None:
        """Return the names bound behind some statements; None where nothing goes on there."""
        for statement in body:
            if statement is self.without:
                continue
            after = self._statement(statement, bound)
            if after is None:
                return None
            bound = after
        return bound

    def _statement(self, node: ast.stmt, bound: frozenset[str]) -> frozenset[str] | None:
        if isinstance(node, _LEAVES):
            self._read(node, bound)
            return None
        if isinstance(node, ast.If):
            bound = self._read(node.test, bound)
            return _both(self.run(node.body, bound), self.run(node.orelse, bound))
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            head = node.test if isinstance(node, ast.While) else node.iter
            bound = self._read(head, bound)
            inside = bound if isinstance(node, ast.While) else bound | stored([node.target])
            self.run(node.body, inside)
            left = bound if of_own_loop(node.body, ast.Break) or not node.orelse else None
            return _both(self.run(node.orelse, bound), left)
        if isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                bound = self._read(item.context_expr, bound)
                bound |= stored([item.optional_vars]) if item.optional_vars else set()
            return self.run(node.body, bound)
        if isinstance(node, ast.Try):
            return self._try(node, bound)
        if isinstance(node, ast.Match):  # whichever case it is, or none
            bound = self._read(node.subject, bound)
            for case in node.cases:
                inside = bound | stored([case.pattern])
                self.run(case.body, self._read(case.guard, inside) if case.guard else inside)
            return bound
        return self._simple(node, bound)

    def _try(self, node: ast.Try, bound: frozenset[str]) -> frozenset[str] | None:
        ends = self.run(node.body, bound)
        ends = ends if ends is None else self.run(node.orelse, ends)
        for handler in node.handlers:
            name: set[str] = {handler.name} if handler.name else set()
            after = self.run(handler.body, bound | name)
            ends = _both(ends, None if after is None else after - name)
        if not node.finalbody:
            return ends
        last = self.run(node.finalbody, bound)
        return None if ends is None or last is None else ends | last

    def _simple(self, node: ast.stmt, bound: frozenset[str]) -> frozenset[str]:
        if isinstance(node, ast.AugAssign):
            self._check(stored([node.target]), bound)
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            inner = loaded([node]) - stored(node.body)
            self._check(inner - {node.name}, bound)
            return bound | {node.name}
        named = {n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr)}
        return self._read(node, bound) | (stored([node]) - named)

    def _read(self, node: ast.AST, bound: frozenset[str]) -> frozenset[str]:
        self._check(_free(node), bound)
        nodes = list(ast.walk(node))
        if any(isinstance(each, (ast.BoolOp, ast.IfExp, *_LATER)) for each in nodes):
            return bound  # what is named within may not be
        return bound | {n.target.id for n in nodes if isinstance(n, ast.NamedExpr)}

    def _check(self, read: set[str], bound: frozenset[str]) -> None:
        self.early |= dict.fromkeys(sorted((read & self.names) - bound))


def _free(node: ast.AST) -> set[str]:
    """The names that code reads, but those that its comprehensions and lambdas bind."""
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Load) else set()
    found: set[str] = set()
    for child in ast.iter_child_nodes(node):
        found |= _free(child)
    if isinstance(node, ast.Lambda):
        return (found - arguments(node)) | _free(node.args)
    if isinstance(node, _COMPREHENSIONS):
        targets = {name for part in node.generators for name in names_in(part.target)}
        return (found - targets) | _free(node.generators[0].iter)
    return found


def arguments(function: Function | ast.Lambda) -> set[str]:
    """Return the names of all arguments of a function."""
    return {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return one if other is None else other
    return one & other

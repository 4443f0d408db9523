"""Statements of a function: the names they bind and the state they set."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from trainperf.source.scopes import Function as Function

COLLECTS = frozenset({
    "add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "insert", "pop",
    "popleft", "put", "remove", "setdefault", "update", "update_state",
})  # fmt: skip
"""Methods that change what they are called on: lists, sets, dicts, queues, metrics, bars."""


def root(node: ast.expr) -> str:
    """Return the name that a chain starts with: `self` of `self.a[0].b()`, '' if none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def dotted(node: ast.expr) -> str:
    """Return `np.random.rand` for that chain of names, '' for anything else."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(names)]) if isinstance(node, ast.Name) else ""


def called(call: ast.Call) -> str:
    """Return the last name of what is called: `log` of `self.log(…)`, '' if it has none."""
    return last_name(call.func)


def last_name(node: ast.expr) -> str:
    """Return `c` of `a.b.c`, '' of what has no name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def names_in(node: ast.AST) -> set[str]:
    """Return the names that stand in a piece of source."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def parameters(function: Function) -> list[str]:
    """Return the names of the arguments that have a place, `self` among them."""
    return [each.arg for each in (*function.args.posonlyargs, *function.args.args)]


def walk(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Return every node of some code."""
    for node in body:
        yield from ast.walk(node)


def assigned(node: ast.AST) -> list[ast.expr]:
    """Return what a statement assigns to, element by element."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign | ast.Delete):
        targets = list(node.targets)
    elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For | ast.NamedExpr):
        targets = [node.target]
    flat = []
    while targets:
        target = targets.pop()
        if isinstance(target, ast.Tuple | ast.List):
            targets += target.elts
        else:
            flat.append(target.value if isinstance(target, ast.Starred) else target)
    return flat


def made_here(body: Iterable[ast.AST]) -> set[str]:
    """Return the names bound in a body to what is not just another name for something."""
    body = list(body)
    made: set[str] = set()
    borrowed: set[str] = set()
    for node in walk(body):
        value = getattr(node, "value", None) if isinstance(node, ast.Assign) else None
        borrows = isinstance(value, ast.Name | ast.Attribute | ast.Subscript)
        found = {each.id for each in assigned(node) if isinstance(each, ast.Name)}
        if isinstance(node, ast.withitem) and isinstance(node.optional_vars, ast.Name):
            found = {node.optional_vars.id}
        (borrowed if borrows or isinstance(node, ast.For) else made).update(found)
    return made - borrowed

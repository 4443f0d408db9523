"""The line of the user's source in which something that is held by a name grows."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from ...process import frames
from .held import Scope

ADD = ("append", "appendleft", "add", "extend", "update", "setdefault", "insert")
"""Methods by which containers grow."""


def grown_at(name: str, scope: Scope) -> dict[str, Any] | None:
    """Describe the call or statement that adds to `name`; None where none is found."""
    tree = _tree(scope.file)
    if tree is None:
        return None
    for function, node in _within(tree, scope, "<module>"):
        if _adds(node, name):
            return _described(scope.file, function, node)
    return None


@lru_cache(maxsize=16)
def _tree(path: str) -> ast.Module | None:
    try:
        return ast.parse("".join(frames.lines_of(path)))
    except (SyntaxError, ValueError):
        return None


def _within(node: ast.AST, scope: Scope, function: str) -> Iterator[tuple[str, ast.AST]]:
    """All nodes of a scope, each with the function it stands in."""
    for child in ast.iter_child_nodes(node):
        inner = function
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = child.name
        rest = scope
        if isinstance(child, ast.ClassDef) and child.name == scope.cls:
            rest = Scope(scope.file)
        line = getattr(child, "lineno", scope.first)
        if not rest.cls and rest.first <= line <= rest.last:
            yield inner, child
        yield from _within(child, rest, inner)


def _adds(node: ast.AST, name: str) -> bool:
    """Whether it is `name.append(…)`, `name[…] = …`, `name += …` or `name = f(name, …)`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in ADD and _is(node.func.value, name)
    if isinstance(node, ast.AugAssign):
        return _is(node.target, name)
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Subscript) and _is(target.value, name):
                return True
            if _is(target, name) and any(_is(one, name) for one in ast.walk(node.value)):
                return True
    return False


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.expr) and ast.unparse(node) == name


def _described(path: str, function: str, node: Any) -> dict[str, Any]:
    return {
        "file": path,
        "line": node.lineno,
        "function": function,
        "col": frames.characters(path, node.lineno, node.col_offset),
        "end_line": node.end_lineno,
        "end_col": frames.characters(path, node.end_lineno, node.end_col_offset),
    }

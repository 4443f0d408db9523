"""Bodies of a file's functions and classes, and what they reach."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from trainperf.source.module import Module, inside
from trainperf.source.scopes import FUNCTIONS, Function

_PYTHON_OPS = {
    "tensorflow.py_function", "tensorflow.numpy_function", "tensorflow.compat.v1.py_func",
    "tensorflow.py_func",
}  # fmt: skip


def function_of(module: Module, node: ast.expr | None) -> Function | ast.Lambda | None:
    """Return the function of this file that `node` names or is."""
    if node is None:
        return None
    node = module.value(node)
    if isinstance(node, ast.Lambda):
        return node
    if isinstance(node, ast.Attribute):
        owner = module.scope(node).owner() if _is_self(node.value) else None
        found = owner.bindings.get(node.attr, []) if owner else []
        method = found[0].node if len(found) == 1 else None
        return method if isinstance(method, FUNCTIONS) else None
    local = module.definition(node)
    return local if isinstance(local, FUNCTIONS) else None


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def method_of(owner: ast.AST | None, name: str) -> ast.FunctionDef | None:
    """Return the method of this name of a class; None for what is no class or has none."""
    body = owner.body if isinstance(owner, ast.ClassDef) else ()
    methods = (node for node in body if isinstance(node, ast.FunctionDef) and node.name == name)
    return next(methods, None)


def calls_in(module: Module, function: ast.AST, depth: int = 2) -> Iterator[ast.Call]:
    """Yield the calls in a function and in those of this file that it calls."""
    for node in inside(function):
        if not isinstance(node, ast.Call):
            continue
        yield node
        local = function_of(module, node.func) if depth else None
        if local is not None and local is not function:
            yield from calls_in(module, local, depth - 1)


def reached(module: Module, body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes of some code, those of the file's functions and properties it uses too."""
    seen: set[int] = set()
    stack = list(body)
    while stack:
        for node in ast.walk(stack.pop()):
            yield node
            own = function_of(module, node) if isinstance(node, ast.Name | ast.Attribute) else None
            if own is not None and id(own) not in seen:
                seen.add(id(own))
                stack.append(own)


def reached_elsewhere(
    module: Module, body: Iterable[ast.AST]
) -> Iterator[tuple[Module, list[ast.AST]]]:
    """Yield what some nodes use of other files, function by function, with all that it reaches."""
    seen: set[int] = set()
    stack = [(module, list(body))]
    while stack:
        here, nodes = stack.pop()
        for node in nodes:
            found = here.defined(node) if isinstance(node, ast.Name | ast.Attribute) else None
            if found is not None and found[0] is not here and id(found[1]) not in seen:
                seen.add(id(found[1]))
                stack.append((found[0], list(reached(found[0], [found[1]]))))
                yield stack[-1]


def python_op(module: Module, function: ast.AST) -> ast.Call | None:
    """Return the call with which a mapped function goes back to Python."""
    for call in calls_in(module, function, 1):
        if module.name(call.func) in _PYTHON_OPS:
            return call
    return None

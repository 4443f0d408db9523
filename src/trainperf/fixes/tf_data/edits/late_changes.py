"""Names and attributes that a generator reads late, and that something may have changed by then."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from trainperf.fixes.common.repeating import changing_attribute
from trainperf.source.arguments import handed
from trainperf.source.bodies import function_of, reached
from trainperf.source.module import Module
from trainperf.source.mutations import filled
from trainperf.source.scopes import FUNCTIONS, Binding, Function
from trainperf.source.statements import assigned, root

DEEP = 3
"""How many calls an argument is followed back through, to where it was made."""


def attribute_changed(module: Module, function: Function) -> str:
    """An attribute of its object that something sets, fills or shuffles behind it, or ''."""
    owner = next((one for one in module.around(function) if isinstance(one, ast.ClassDef)), None)
    nodes = [node for node in reached(module, function.body) if isinstance(node, ast.Attribute)]
    read = {node.attr for node in nodes if root(node) == "self"}
    return changing_attribute([module], owner, read)


def name_changed(module: Module, function: Function) -> str:
    """A name from outside that it reads, or a function of the file that it calls, or ''."""
    found = (given_changed(module, each) for each in with_called(module, function))
    return next((name for name in found if name), "")


def given_changed(module: Module, given: ast.AST) -> str:
    """A name from outside in some code that may stand for something else later, or ''."""
    inside = {id(node) for node in ast.walk(given)}
    for name in (node for node in ast.walk(given) if isinstance(node, ast.Name)):
        found = module.bindings(name) or []
        own = any(id(one.node) in inside for one in found)
        if not own and _changes(module, name.id, found, given, DEEP):
            return name.id
    return ""


def with_called(module: Module, function: Function) -> Iterator[Function]:
    """A function and those of its file that it calls."""
    seen: dict[int, Function] = {}
    stack = [function]
    while stack:
        one = stack.pop()
        if id(one) in seen:
            continue
        seen[id(one)] = one
        yield one
        for node in ast.walk(one):
            own = function_of(module, node.func) if isinstance(node, ast.Call) else None
            if isinstance(own, FUNCTIONS):
                stack.append(own)


def _changes(module: Module, name: str, found: list[Binding], reader: ast.AST, deep: int) -> bool:
    """Whether what a name stands for may change after `reader`, which reads it late.

    It is bound in a loop, or once more behind it; something behind it or in another function
    writes into it; or that holds for what is handed in as a parameter.
    """
    line = getattr(reader, "end_lineno", 0)
    if not found or all(one.kind in ("import", "definition") for one in found):
        return False
    for one in found:
        at = getattr(one.node, "lineno", 0)
        if one.kind == "loop" or (one.kind != "parameter" and at > line):
            return True
    home = scope_of(module, found)
    for node in module.nodes:
        if isinstance(node, ast.Global | ast.Nonlocal) and name in node.names:
            return True
        target = _written(node, name)
        if target is None or module.bindings(target) != found:
            continue
        if module.function(node) is not home or node.lineno > line:  # type: ignore[attr-defined]
            return True
    if found[0].kind != "parameter" or not deep:
        return False
    return any(
        _changes(module, each.id, module.bindings(each) or [], call, deep - 1)
        for call, given in handed_in(module, home, name)
        for each in ast.walk(given)
        if isinstance(each, ast.Name)
    )


def scope_of(module: Module, found: list[Binding]) -> ast.AST | None:
    """The function that binds a name; None where the file does."""
    if found[0].kind == "parameter":
        node = found[0].node
        return node if isinstance(node, FUNCTIONS) else module.function(node)
    return module.function(found[0].node)


def _written(node: ast.AST, name: str) -> ast.Name | None:
    """The name where a node writes into what it stands for, or changes its order."""
    written: list[ast.expr] = [
        each for each in assigned(node) if isinstance(each, ast.Subscript | ast.Attribute)
    ]
    if isinstance(node, ast.AugAssign):
        written.append(node.target)
    if isinstance(node, ast.Call):
        written += filled(node)
    for each in written:
        if root(each) == name:
            return next(n for n in ast.walk(each) if isinstance(n, ast.Name) and n.id == name)
    return None


def handed_in(
    module: Module, function: ast.AST | None, name: str
) -> Iterable[tuple[ast.Call, ast.expr]]:
    """The calls of a function in its file, each with what it gives as the parameter `name`."""
    if not isinstance(function, FUNCTIONS):
        return
    owner = module.parent(function) if function.name == "__init__" else None
    for node in module.nodes:
        if not isinstance(node, ast.Call):
            continue
        made = owner is not None and module.definition(node.func) is owner
        if made or function_of(module, node.func) is function:
            yield from ((node, given) for each, given in handed(function, node) if each == name)

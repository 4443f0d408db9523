"""Calls of the user's pipelines as they stand in the file: their functions and generators."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from trainperf.errors import CannotRewrite
from trainperf.fixes.common.repeating import changing_attribute
from trainperf.model import Site
from trainperf.rewrite import Script
from trainperf.source.arguments import argument, handed
from trainperf.source.bodies import function_of, reached
from trainperf.source.iterations import of_this_function
from trainperf.source.module import Module
from trainperf.source.mutations import filled
from trainperf.source.scopes import FUNCTIONS, Binding, Function
from trainperf.source.statements import assigned, root

GIVEN = {"from_generator": "generator", "fit": "x"}
"""Calls that take a generator, and the name of the argument; `fit_generator` is gone."""

YIELDS = (ast.Yield, ast.YieldFrom)
_DEEP = 4
"""How many names, calls and lambdas lead from the call to the generator."""

_Found = tuple[Module, Function]
"""A function with the file that it stands in."""


def parsed(script: Script, file: str) -> Module:
    """Return a file in which names are resolved, those that come from the user's others as well."""
    return Module(script.module(file), "", Path(script.path(file)), _Imported(script))


class _Imported:
    """Finds definitions in the files that a file imports."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def definition(self, name: str, path: Path) -> tuple[Module, Function | ast.ClassDef] | None:
        """Return what `name`, as imported in the file `path`, stands for, and its file."""
        if "." not in name:
            return None
        found = self._script.project([str(path)]).bound(name, str(path))
        bindings = [] if found is None else found[0].top(found[1])
        node = bindings[0].node if len(bindings) == 1 else None
        if found is None or not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            return None
        return parsed(self._script, found[0].path), node


def mapped(script: Script, site: Site) -> tuple[Module, Function | ast.Lambda | None]:
    """Return the file of the call at `site` and the function it takes; None if not in it."""
    module = parsed(script, site.file)
    place = script.argument(site, 0, "map_func")
    if place is None:
        return module, None
    wanted = ast.dump(ast.parse(f"({script.expression(place)})", mode="eval").body)
    for node in module.nodes:
        if isinstance(node, ast.expr) and node.lineno == place.line and ast.dump(node) == wanted:
            return module, function_of(module, node)
    return module, None


def call_at(script: Script, module: Module, site: Site) -> ast.Call:
    """Return the call at a site, as a node of `module`."""
    wanted = ast.dump(ast.parse(f"({script.expression(site)})", mode="eval").body)
    for node in module.nodes:
        here = isinstance(node, ast.Call) and node.end_lineno == site.end_line
        if isinstance(node, ast.Call) and here and ast.dump(node) == wanted:
            return node
    raise CannotRewrite("the call was not found")


def generator_at(script: Script, site: Site, seen: object) -> Site:
    """Return where the generator's `def` stands: as the run saw it, or as the source says."""
    if isinstance(seen, list | tuple) and len(seen) == 2:
        head = Site(str(seen[0]), int(seen[1]))
        try:
            if yields(script.definition(head)):
                return head
        except CannotRewrite:
            pass  # a lambda around it
    module = parsed(script, site.file)
    call = call_at(script, module, site)
    called = ast.unparse(call.func).rpartition(".")[2]
    given = argument(call, GIVEN[called], 0) if called in GIVEN else None
    found = None if given is None else _definition(module, given, _DEEP)
    if found is None or not yields(found[1]):
        raise CannotRewrite("where the generator is defined is not seen")
    return Site(site.file if found[0] is module else str(found[0].path), found[1].lineno)


def _definition(module: Module, node: ast.expr, deep: int) -> _Found | None:
    """Follow names, calls, lambdas and `functools.partial` to a function of the user's files."""
    if not deep:
        return None
    node = module.value(node)
    if isinstance(node, ast.Lambda):
        return _definition(module, node.body, deep - 1)
    if isinstance(node, ast.Call):
        if module.name(node.func) == "functools.partial" and node.args:
            return _definition(module, node.args[0], deep - 1)
        return _definition(module, node.func, deep - 1)
    found = module.defined(node)
    if found is None:
        return _method(module, node) if isinstance(node, ast.Attribute) else None
    owner, target = found
    if isinstance(target, ast.ClassDef):
        calls = [each for each in _methods(target) if each.name == "__call__"]
        return (owner, calls[0]) if calls else None
    if yields(target):
        return owner, target
    returned = [each.value for each in ast.walk(target) if isinstance(each, ast.Return)]
    inner = returned[0] if len(returned) == 1 else None
    return None if inner is None else _definition(owner, inner, deep - 1)


def _method(module: Module, node: ast.Attribute) -> _Found | None:
    """The only method of this name in the file, whatever it is called on."""
    found = [one for each in module.classes for one in _methods(each) if one.name == node.attr]
    return (module, found[0]) if len(found) == 1 else None


def _methods(node: ast.ClassDef) -> Iterator[Function]:
    return (each for each in node.body if isinstance(each, FUNCTIONS))


def yields(function: Function) -> bool:
    """Whether a function is a generator."""
    return any(isinstance(each, YIELDS) for each in of_this_function(function.body))


def is_sent_values(module: Module, body: Iterable[ast.AST]) -> bool:
    """Whether a generator goes by what its `yield` gives."""
    found = (each for each in of_this_function(body) if isinstance(each, ast.Yield))
    return not all(isinstance(module.parent(each), ast.Expr) for each in found)


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

"""The source of the user's pipelines: what their calls take, and functions put beside them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from trainperf.errors import CannotRewrite
from trainperf.model import Site
from trainperf.rewrite import Script
from trainperf.source.arguments import argument
from trainperf.source.bodies import function_of
from trainperf.source.iterations import of_this_function
from trainperf.source.module import Module
from trainperf.source.scopes import FUNCTIONS, Function
from trainperf.source.statements import called

_MODULES = {
    "collections": "collections",
    "futures": "concurrent.futures",
    "tf": "tensorflow",
    "np": "numpy",
}

GIVEN = {"from_generator": "generator", "fit": "x"}
"""Calls that take a generator, and the name of the argument."""

YIELDS = (ast.Yield, ast.YieldFrom)
_DEEP = 4
"""How many names, calls and lambdas lead from the call to the generator."""


def put_in(script: Script, file: str, *functions: str) -> str:
    """Put functions, which call each other, into a file, and return the name of the last.

    `tf.`, `np.`, `futures.` and `collections.` stand for the modules, as the file names them.
    """
    text, name = "\n\n".join(functions), ""
    for short, module in _MODULES.items():
        if f"{short}." in text:
            text = re.sub(rf"\b{short}\.", f"{script.module_name(file, module)}.", text)
    for own in re.findall(r"^def (\w+)", text, re.MULTILINE):
        name = script.free_name(file, own)
        text = re.sub(rf"\b{own}\b", name, text)
    script.insert_function(file, text)
    return name


def mapped(script: Script, site: Site) -> tuple[Module, Function | ast.Lambda | None]:
    """Return the file of the call at `site` and the function it takes; None if not in it."""
    module = script.linked(site.file)
    return module, function_of(module, argument(script.call(site), "map_func", 0))


def generator_at(script: Script, site: Site, seen: object) -> Site:
    """Return where the generator's `def` stands: as the run saw it, or as the source says."""
    if isinstance(seen, list | tuple) and len(seen) == 2:
        head = Site(str(seen[0]), int(seen[1]))
        try:
            if yields(script.definition(head)):
                return head
        except CannotRewrite:
            pass  # a lambda around it
    module, call = script.linked(site.file), script.call(site)
    given = argument(call, GIVEN[called(call)], 0) if called(call) in GIVEN else None
    found = None if given is None else _definition(module, given, _DEEP)
    if found is None or not yields(found[1]):
        raise CannotRewrite("where the generator is defined is not seen")
    return Site(site.file if found[0] is module else str(found[0].path), found[1].lineno)


def _definition(module: Module, node: ast.expr, deep: int) -> tuple[Module, Function] | None:
    """Follow names, calls, lambdas and `functools.partial` to a function of the user's files."""
    if not deep:
        return None
    node = module.value(node)
    if isinstance(node, ast.Lambda):
        return _definition(module, node.body, deep - 1)
    if isinstance(node, ast.Call):
        partial = module.name(node.func) == "functools.partial" and node.args
        return _definition(module, node.args[0] if partial else node.func, deep - 1)
    found = module.defined(node)
    if found is None:
        methods = [
            method
            for owner in module.classes
            for method in _methods(owner)
            if isinstance(node, ast.Attribute) and method.name == node.attr
        ]
        return (module, methods[0]) if len(methods) == 1 else None
    owner, target = found
    if isinstance(target, ast.ClassDef):
        calls = [method for method in _methods(target) if method.name == "__call__"]
        return (owner, calls[0]) if calls else None
    if yields(target):
        return owner, target
    returned = [part.value for part in ast.walk(target) if isinstance(part, ast.Return)]
    inner = returned[0] if len(returned) == 1 else None
    return None if inner is None else _definition(owner, inner, deep - 1)


def _methods(node: ast.ClassDef) -> Iterator[Function]:
    return (method for method in node.body if isinstance(method, FUNCTIONS))


def yields(function: Function) -> bool:
    """Whether a function is a generator."""
    return any(isinstance(node, YIELDS) for node in of_this_function(function.body))

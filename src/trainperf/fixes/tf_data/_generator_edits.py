"""A generator whose items are made in several threads, where each is made by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from trainperf.errors import CannotRewrite
from trainperf.fixes.tf_data._ahead import IN_PARALLEL, free_name, put_in
from trainperf.model import Site
from trainperf.source.arguments import argument
from trainperf.source.iterations import (
    carried,
    changes_shared,
    loaded,
    of_own_loop,
    of_this_function,
    stored,
)
from trainperf.source.module import Module
from trainperf.source.scopes import FUNCTIONS, Function
from trainperf.source.statements import names

if TYPE_CHECKING:
    from trainperf.rewrite import Script

GIVEN = {"from_generator": "generator", "fit": "x"}
"""Calls that take a generator, and the name of the argument; `fit_generator` is gone."""

YIELDS = (ast.Yield, ast.YieldFrom)
DEEP = 4
"""How many names, calls and lambdas lead from the call to the generator."""


def make_items_in_parallel(script: Script, site: Site, data: dict[str, Any]) -> None:
    """Let threads make the items of the generator that the call at `site` takes.

    `data` has "calls", how many at once, and may have "generator", where the run saw its head.
    Raises `CannotRewrite` where an item may need what another has left.
    """
    head = _generator(script, site, data.get("generator"))
    function = script.definition(head)
    module = Module(script.module(head.file), "")
    loop = _loop(function)
    _check(module, function, loop)
    name = free_name(script, head.file, "make", "make_item")
    item = free_name(script, head.file, "item", "each_item")
    helper = put_in(script, head.file, IN_PARALLEL)
    call = f"yield from {helper}({name}, {{}}, calls={data['calls']})"
    script.loop_into_function(Site(head.file, loop.lineno), name, item, call)


# --------------------------------------------------------------------- which generator


def _generator(script: Script, site: Site, seen: object) -> Site:
    """Where the generator's `def` stands: as the run saw it, or as the source says."""
    if isinstance(seen, list | tuple) and len(seen) == 2:
        head = Site(str(seen[0]), int(seen[1]))
        try:
            if _yields(script.definition(head)):
                return head
        except CannotRewrite:
            pass  # a lambda around it
    module = Module(script.module(site.file), "")
    call = _call_at(script, module, site)
    called = ast.unparse(call.func).rpartition(".")[2]
    given = argument(call, GIVEN[called], 0) if called in GIVEN else None
    found = None if given is None else _definition(module, given, DEEP)
    if found is None or not _yields(found):
        raise CannotRewrite("where the generator is defined is not seen")
    return Site(site.file, found.lineno)


def _call_at(script: Script, module: Module, site: Site) -> ast.Call:
    """The call at a site, as a node of `module`."""
    wanted = ast.dump(ast.parse(f"({script.expression(site)})", mode="eval").body)
    for node in module.nodes:
        here = isinstance(node, ast.Call) and node.end_lineno == site.end_line
        if isinstance(node, ast.Call) and here and ast.dump(node) == wanted:
            return node
    raise CannotRewrite("the call was not found")


def _definition(module: Module, node: ast.expr, deep: int) -> Function | None:
    """Follow names, calls, lambdas and `functools.partial` to a function of the file."""
    if not deep:
        return None
    node = module.value(node)
    if isinstance(node, ast.Lambda):
        return _definition(module, node.body, deep - 1)
    if isinstance(node, ast.Call):
        if module.name(node.func) == "functools.partial" and node.args:
            return _definition(module, node.args[0], deep - 1)
        return _definition(module, node.func, deep - 1)
    if isinstance(node, ast.Attribute):
        return _method(module, node)
    found = module.definition(node)
    if isinstance(found, ast.ClassDef):
        return next((each for each in _methods(found) if each.name == "__call__"), None)
    if isinstance(found, FUNCTIONS) and not _yields(found):
        returned = [each.value for each in ast.walk(found) if isinstance(each, ast.Return)]
        inner = returned[0] if len(returned) == 1 else None
        return None if inner is None else _definition(module, inner, deep - 1)
    return found


def _method(module: Module, node: ast.Attribute) -> Function | None:
    """The only method of this name in the file, whatever it is called on."""
    found = [one for each in module.classes for one in _methods(each) if one.name == node.attr]
    return found[0] if len(found) == 1 else None


def _methods(node: ast.ClassDef) -> Iterator[Function]:
    return (each for each in node.body if isinstance(each, FUNCTIONS))


def _yields(function: Function) -> bool:
    return any(isinstance(each, YIELDS) for each in of_this_function(function.body))


# ------------------------------------------------------------- whether it can be taken apart


def _loop(function: Function) -> ast.For:
    """The innermost loop around all that is yielded, which makes what it yields."""
    if isinstance(function, ast.AsyncFunctionDef):
        raise CannotRewrite("the generator is asynchronous")
    loops = [
        each
        for each in of_this_function(function.body)
        if isinstance(each, ast.For | ast.While) and _holds_yield(each.body)
    ]
    inner = [each for each in loops if not _inside(each, loops)]
    if len(inner) != 1:
        raise CannotRewrite("the generator yields in more than one loop, or in none")
    loop = inner[0]
    if isinstance(loop, ast.While):
        raise CannotRewrite("the generator yields in a `while` loop: what it counts is not seen")
    outside = [each for each in of_this_function(function.body) if isinstance(each, YIELDS)]
    within = [each for each in of_this_function(loop.body) if isinstance(each, YIELDS)]
    if len(outside) != len(within):
        raise CannotRewrite("the generator yields outside its loop as well")
    if not any(isinstance(each, ast.Call) for each in of_this_function(loop.body)):
        raise CannotRewrite("the loop that yields makes nothing: it hands out what is there")
    return loop


def _inside(loop: ast.stmt, loops: list[Any]) -> list[Any]:
    within = set(map(id, ast.walk(loop)))
    return [each for each in loops if each is not loop and id(each) in within]


def _holds_yield(body: list[ast.stmt]) -> bool:
    return any(isinstance(each, YIELDS) for each in of_this_function(body))


def _check(module: Module, function: Function, loop: ast.For) -> None:
    """Raise `CannotRewrite` where an iteration ends the loop, or leaves something behind."""
    body, targets = loop.body, stored([loop.target])
    if loop.orelse or of_own_loop(body, ast.Break):
        raise CannotRewrite("the generator's loop may be left before its end")
    for node in of_this_function(body):
        if isinstance(node, ast.Return | ast.Await):
            raise CannotRewrite("the generator may end within its loop")
        if isinstance(node, ast.Yield) and not _is_statement(module, node):
            raise CannotRewrite("the generator is sent values")
    name = carried(body, targets)
    if name:
        raise CannotRewrite(f"an item needs what the one before left in {name}")
    changed = changes_shared(module, body)
    if changed:
        raise CannotRewrite(f"the items are not made apart: {changed}")
    if not all(isinstance(each, ast.Name | ast.Tuple | ast.List) for each in _parts(loop.target)):
        raise CannotRewrite("the generator's loop counts in something that others see")
    own = stored(body) | targets
    left = _read_later(function, loop, own)
    if left:
        raise CannotRewrite(f"what its loop leaves in {left} is read outside it")
    if own & _declared(function):
        raise CannotRewrite("the generator's loop sets names of the module")


def _read_later(function: Function, loop: ast.For, own: set[str]) -> str:
    """A name that the loop binds and that something outside it reads with its value, or ''."""
    end = loop.end_lineno or loop.lineno
    behind = [each for each in ast.walk(function) if getattr(each, "lineno", 0) > end]
    read = loaded(behind) | (names(loop.iter) & own)
    if own & read:
        return sorted(own & read)[0]
    around = [each for each in ast.walk(function) if isinstance(each, ast.For | ast.While)]
    around = [each for each in around if each is not loop and loop in ast.walk(each)]
    return carried(around[0].body, (), own, without=loop) if around else ""


def _parts(target: ast.expr) -> Iterator[ast.expr]:
    yield target
    for each in target.elts if isinstance(target, ast.Tuple | ast.List) else ():
        yield from _parts(each)


def _is_statement(module: Module, node: ast.AST) -> bool:
    return isinstance(module.parent(node), ast.Expr)


def _declared(function: Function) -> set[str]:
    return {
        name
        for each in ast.walk(function)
        if isinstance(each, ast.Global | ast.Nonlocal)
        for name in each.names
    }

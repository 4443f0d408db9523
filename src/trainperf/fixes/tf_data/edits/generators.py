"""A generator whose items are made in several threads, where each is made by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from trainperf.errors import CannotRewrite
from trainperf.fixes.tf_data.edits.ahead import IN_PARALLEL, put_in
from trainperf.fixes.tf_data.edits.collected import first_part
from trainperf.fixes.tf_data.edits.counted import make_counted
from trainperf.fixes.tf_data.edits.mapped import call_at, parsed
from trainperf.fixes.tf_data.edits.slices import rows, use_slices
from trainperf.fixes.tf_data.edits.which_generator import YIELDS, generator_at, is_sent_values
from trainperf.model import Site
from trainperf.source.iterations import (
    carried,
    declared,
    loaded,
    of_own_loop,
    of_this_function,
    stored,
)
from trainperf.source.module import Module
from trainperf.source.mutations import changes_shared
from trainperf.source.scopes import Function
from trainperf.source.statements import names_in

if TYPE_CHECKING:
    from trainperf.rewrite import Script


def make_items_in_parallel(script: Script, site: Site, data: dict[str, Any]) -> None:
    """Let threads make the items of the generator that the call at `site` takes.

    `data` has "calls", how many at once, and may have "generator", where the run saw its head.
    One that only hands out rows of arrays becomes a dataset of the arrays, where "fits" does
    not say that these are too large for a copy. Raises `CannotRewrite` where an item may need
    what another has left.
    """
    head = generator_at(script, site, data.get("generator"))
    function = script.definition(head)
    module = parsed(script, head.file)
    arrays = rows(module, function)
    if arrays is not None and data.get("fits", True):
        call = call_at(script, module, site) if head.file == site.file else None
        if call is not None and ast.unparse(call.func).endswith(".from_generator"):
            use_slices(script, site, call, module, arrays)
            return
    make_apart(script, head, data["calls"])


def make_apart(script: Script, head: Site, calls: int) -> None:
    """Let threads make the items of the generator whose `def` is at `head`, `calls` at once."""
    function, module = script.definition(head), parsed(script, head.file)
    loop = _loop(function)
    if isinstance(loop, ast.While):
        make_counted(script, Site(head.file, loop.lineno), module, function, calls)
        return
    name = script.free_name(head.file, "make", "make_item")
    item = script.free_name(head.file, "item", "each_item")
    at = Site(head.file, loop.lineno)
    try:
        _check(module, function, loop)
    except CannotRewrite as whole:
        part = first_part(module, function, loop)
        if part is None:
            raise whole from None
        for place, name_of in part.hoisted:
            script.replace_call(script.site_of(at, place), name_of)
        helper = put_in(script, head.file, IN_PARALLEL)
        made = f"{helper}({name}, {{}}, calls={calls})"
        script.loop_part_into_function(at, part.taken, (name, item), part.results, made)
        return
    helper = put_in(script, head.file, IN_PARALLEL)
    made = f"yield from {helper}({name}, {{}}, calls={calls})"
    script.loop_into_function(at, name, item, made)


# ------------------------------------------------------------- whether it can be taken apart


def _loop(function: Function) -> ast.For | ast.While:
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
    loop: ast.For | ast.While = inner[0]
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
    if any(isinstance(each, ast.Return | ast.Await) for each in of_this_function(body)):
        raise CannotRewrite("the generator may end within its loop")
    if is_sent_values(module, body):
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
    if own & declared(function):
        raise CannotRewrite("the generator's loop sets names of the module")


def _read_later(function: Function, loop: ast.For, own: set[str]) -> str:
    """A name that the loop binds and that something outside it reads with its value, or ''."""
    end = loop.end_lineno or loop.lineno
    behind = [each for each in ast.walk(function) if getattr(each, "lineno", 0) > end]
    read = loaded(behind) | (names_in(loop.iter) & own)
    if own & read:
        return sorted(own & read)[0]
    around = [each for each in ast.walk(function) if isinstance(each, ast.For | ast.While)]
    around = [each for each in around if each is not loop and loop in ast.walk(each)]
    return carried(around[0].body, (), own, without=loop) if around else ""


def _parts(target: ast.expr) -> Iterator[ast.expr]:
    yield target
    for each in target.elts if isinstance(target, ast.Tuple | ast.List) else ():
        yield from _parts(each)

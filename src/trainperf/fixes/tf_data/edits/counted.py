"""Generators that count by hand in a `while` loop: what counts and what makes go apart."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.fixes.tf_data.edits.ahead import IN_PARALLEL, put_in
from trainperf.fixes.tf_data.edits.mapped import is_sent_values
from trainperf.model import Site
from trainperf.source.iterations import (
    arguments,
    carried,
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

LEAVES = (ast.Return, ast.Await, ast.Global, ast.Nonlocal)


def make_counted(script: Script, at: Site, module: Module, function: Function, calls: int) -> None:
    """Let threads make the items of the `while` loop at `at` in a generator, `calls` at once.

    Raises `CannotRewrite` where it does not end with what it counts, or items hang together.
    """
    loop = next(each for each in ast.walk(function) if _is_at(each, at))
    assert isinstance(loop, ast.While)
    taken = _taken(loop)
    making, counting = loop.body[:taken], loop.body[taken:]
    counters = sorted(stored(counting))
    _check(module, function, loop, taken, set(counters))
    free = [
        script.free_name(at.file, *each)
        for each in (("places", "all_places"), ("make", "make_item"), ("item", "each_item"))
    ]
    read = loaded(making)
    used = [name for name in counters if name in read]
    if not used:
        raise CannotRewrite("the generator makes the same each time")
    helper = put_in(script, at.file, IN_PARALLEL)
    call = f"yield from {helper}({free[1]}, {free[0]}(), calls={calls})"
    script.counted_into_functions(at, taken, (free[0], free[1], free[2]), used, call)


def _is_at(node: ast.AST, at: Site) -> bool:
    return isinstance(node, ast.While) and node.lineno == at.line


def _taken(loop: ast.While) -> int:
    """How many statements make the item: all but the last ones, which only count."""
    taken = len(loop.body)
    while taken and _counts(loop.body[taken - 1]):
        taken -= 1
    if taken in (0, len(loop.body)):
        raise CannotRewrite("the generator yields in a `while` loop: what it counts is not seen")
    return taken


def _counts(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.AugAssign):
        target: ast.expr | None = statement.target
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    else:
        return False
    value = statement.value
    worked = any(isinstance(each, ast.Call | ast.Yield | ast.Await) for each in ast.walk(value))
    return isinstance(target, ast.Name) and not worked


def _check(
    module: Module, function: Function, loop: ast.While, taken: int, counters: set[str]
) -> None:
    making, counting = loop.body[:taken], loop.body[taken:]
    own = stored(making)
    kinds = (*LEAVES, ast.NamedExpr)
    left = of_own_loop(making, ast.Break) or of_own_loop(making, ast.Continue)
    if loop.orelse or left or any(isinstance(each, kinds) for each in of_this_function(making)):
        raise CannotRewrite("the generator's loop may be left before its end")
    if is_sent_values(module, loop.body):
        raise CannotRewrite("the generator is sent values")
    name = carried(making, counters)
    changed = changes_shared(module, making)
    if name or changed:
        raise CannotRewrite(f"an item needs what the one before left in {name or changed}")
    if own & counters or own & (loaded(counting) | names_in(loop.test)):
        raise CannotRewrite("what the generator counts hangs on what it makes")
    if not counters <= _local(function, loop) | arguments(function):
        raise CannotRewrite("the generator counts in names of the module")
    inside = {id(each) for one in making for each in ast.walk(one)}
    others = [each for each in ast.walk(function) if id(each) not in inside]
    if own & {each.id for each in others if isinstance(each, ast.Name)}:
        raise CannotRewrite("what the loop makes is read outside it")


def _local(function: Function, loop: ast.While) -> set[str]:
    """The names that the function binds outside the loop, in loops around it as well."""
    inside = {id(each) for each in ast.walk(loop)}
    found = [each for each in of_this_function(function.body) if isinstance(each, ast.Name)]
    stores = [each for each in found if not isinstance(each.ctx, ast.Load)]
    return {each.id for each in stores if id(each) not in inside}

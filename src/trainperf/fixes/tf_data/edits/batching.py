"""The batches of a loop of the user's, made ahead by a thread while the model computes."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.fixes.tf_data.edits.ahead import AHEAD_OF, IN_PARALLEL, put_in
from trainperf.fixes.tf_data.edits.generators import make_apart
from trainperf.fixes.tf_data.edits.mapped import call_at, parsed, yields
from trainperf.fixes.tf_data.edits.movable import JUMPS, check_calls, makes, names_read
from trainperf.model import Site
from trainperf.source.bodies import function_of
from trainperf.source.iterations import arguments, carried, declared, loaded, stored
from trainperf.source.module import Module
from trainperf.source.mutations import (
    changed_by,
    changed_in_calls,
    changed_in_place,
    changes_shared,
)
from trainperf.source.scopes import FUNCTIONS, Function
from trainperf.source.statements import made_here, names_in

if TYPE_CHECKING:
    from trainperf.rewrite import Script

WORK = (ast.Call, ast.Subscript, ast.BinOp, ast.ListComp)
"""Parts of an argument of the step that make it more than a name."""

PARTS = ("batch_x", "batch_y", "batch_z", "batch_3", "batch_4", "batch_5", "batch_6")
"""Names for parts of a batch that have none yet."""


@dataclass(frozen=True)
class Loop:
    """A loop around a step: what it does first, what makes the batch, and the rest."""

    node: ast.For
    leading: list[ast.stmt]
    making: list[ast.stmt]
    rest: list[ast.stmt]
    hoisted: list[ast.expr]
    """Arguments of the step that are worked out in the call."""
    scope: ast.AST
    """The function around it, or the module."""


def make_batches_ahead(script: Script, site: Site, calls: int = 1) -> None:
    """Let a thread make the batches of the loop around the step that is called at `site`.

    With more `calls`, so many threads make a batch each. Raises `CannotRewrite` where a batch
    may depend on what the step before did, or then on the batch before.
    """
    module = parsed(script, site.file)
    node, statement = _loop(script, site)
    generator = _generator_call(module, node.iter)
    if generator is not None:
        call, function = generator
        _check_generator(module, call, function, node.body)
        if calls > 1:
            make_apart(script, Site(site.file, function.lineno), calls)
            return
        helper = put_in(script, site.file, AHEAD_OF)
        script.wrap_call(script.site_of(site, call), f"{helper}({{}})")
        return
    step = call_at(script, module, site)
    loop = _parts(module, node, statement, step)
    results = {name: name for name in _results(loop)}
    _check(module, loop)
    if calls > 1:
        _check_apart(module, loop)
    for each in loop.hoisted:
        name = script.free_name(site.file, *PARTS, beside=results)
        place = script.site_of(site, each)
        text = script.expression(place)
        results[name] = ast.unparse(each) if "\n" in text else text
        script.replace_call(place, name)
    if calls > 1:
        _in_parallel(script, site, loop, results, calls)
        return
    helper = put_in(script, site.file, AHEAD_OF)
    name = script.free_name(site.file, "batches", "make_batches")
    script.loop_part_into_generator(
        Site(site.file, node.lineno),
        (len(loop.leading), len(loop.leading) + len(loop.making)),
        name,
        results,
        f"{helper}({{}})",
    )


def _check_apart(module: Module, loop: Loop) -> None:
    """Refuse batches that several threads could not make, each its own."""
    if loop.leading:
        raise CannotRewrite("the loop does something else before it makes its batch")
    changed = changes_shared(module, [*loop.making, *map(ast.Expr, loop.hoisted)])
    if changed:
        raise CannotRewrite(f"the batches are not made apart: {changed}")


def _in_parallel(
    script: Script, site: Site, loop: Loop, results: dict[str, str], calls: int
) -> None:
    """Let several threads make a batch each, where it is made at the beginning of the loop."""
    item = script.free_name(site.file, "item", "each_item")
    name = script.free_name(site.file, "make_batch", "make_one_batch")
    call = f"{put_in(script, site.file, IN_PARALLEL)}({name}, {{}}, calls={calls})"
    at = Site(site.file, loop.node.lineno)
    script.loop_part_into_function(at, len(loop.making), (name, item), results, call)


def _loop(script: Script, site: Site) -> tuple[ast.For, ast.stmt]:
    """The innermost loop around a step in its function, and which statement of it holds that."""
    around = script.around(site)
    for outer, inner in reversed(list(pairwise(around))):
        if isinstance(outer, FUNCTIONS):
            break
        if isinstance(outer, ast.While) and inner in outer.body:
            raise CannotRewrite("the step is called in a `while` loop")
        if isinstance(outer, ast.For) and inner in outer.body:
            return outer, inner
    raise CannotRewrite("the step is not called in a `for` loop of its function")


# ------------------------------------------------------------ batches of a generator


def _generator_call(module: Module, node: ast.expr) -> tuple[ast.Call, Function] | None:
    """The call of a generator of this file that a loop goes over, `enumerate` and all."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call):
            found = function_of(module, each.func)
            if isinstance(found, FUNCTIONS) and yields(found):
                return each, found
    return None


def _check_generator(
    module: Module, call: ast.Call, function: Function, body: Sequence[ast.stmt]
) -> None:
    check_calls(module, [*function.body, call], body)
    own = stored(function.body) | arguments(function)
    changed = changed_by(body) | changed_in_calls(module, body)
    for name in sorted((names_read(module, function.body) - own) | names_in(call)):
        if name in changed:
            raise CannotRewrite(f"the loop changes {name}, of which batches are made")


# ----------------------------------------------------- batches made in the loop's body


def _parts(module: Module, node: ast.For, statement: ast.stmt, step: ast.Call) -> Loop:
    """Take a loop's body apart: the first run of statements that only make things."""
    if node.orelse:
        raise CannotRewrite("the loop has an `else`")
    before = node.body[: node.body.index(statement)]
    movable = [makes(module, each) for each in before]
    given = [*step.args, *(each.value for each in step.keywords)]
    worked = [each for each in given if any(isinstance(n, WORK) for n in ast.walk(each))]
    hoisted = [each for each in worked if makes(module, ast.Expr(each))]
    first = movable.index(True) if True in movable else len(before)
    end = movable.index(False, first) if False in movable[first:] else len(movable)
    whole = len(hoisted) == len(worked) and statement in node.body and _plain(statement)
    if not whole or loaded(hoisted) & changed_by(before[end:]):
        hoisted = []
    if True not in movable and not hoisted:
        raise CannotRewrite("nothing in the loop makes the batch ahead of its step")
    if any(isinstance(each, JUMPS) for one in node.body[:first] for each in ast.walk(one)):
        raise CannotRewrite("the loop may go on before it makes the batch")
    scope = module.function(node) or module.scope(node).node
    parts = node.body[:first], node.body[first:end], node.body[end:]
    return Loop(node, *parts, hoisted, scope)


def _plain(statement: ast.stmt) -> bool:
    """Whether a step is called whenever its statement is reached."""
    return isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr | ast.AnnAssign)


def _results(loop: Loop) -> list[str]:
    """The names that the rest of the loop, and what follows it, needs of the batch."""
    made = stored([loop.node.target]) | stored(loop.making)
    moved = [*loop.making, *loop.hoisted, loop.node.iter]
    inside = {id(each) for one in moved for each in ast.walk(one)}
    read = {
        each.id
        for each in ast.walk(loop.scope)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and id(each) not in inside
    }
    order = [each.id for each in ast.walk(loop.node) if isinstance(each, ast.Name)]
    ordered = [name for name in dict.fromkeys(order) if name in made & read]
    if not ordered and not loop.hoisted:
        raise CannotRewrite("what the step is given is not made in the loop")
    given = [*(ast.parse(each).body[0] for each in ordered), *map(ast.Expr, loop.hoisted)]
    name = carried([*loop.making, *given], stored([loop.node.target]))
    if name:
        raise CannotRewrite(f"a batch needs what the one before left in {name}")
    return ordered


def _check(module: Module, loop: Loop) -> None:
    """Raise `CannotRewrite` where the batch needs what the loop does in its other statements."""
    targets, others = stored([loop.node.target]), [*loop.leading, *loop.rest]
    parts = [loop.node.target, *getattr(loop.node.target, "elts", [])]
    if not all(isinstance(each, ast.Name | ast.Tuple | ast.List) for each in parts):
        raise CannotRewrite("the loop counts in something that others see")
    own = stored(loop.making) | targets
    if isinstance(loop.scope, ast.ClassDef) or own & declared(loop.scope):
        raise CannotRewrite("the loop gives values to names beyond its function")
    if own & names_in(loop.node.iter):
        raise CannotRewrite("the loop changes what it goes over")
    ahead = (loaded(loop.leading) | stored(loop.leading)) & stored(loop.making)
    if ahead:
        raise CannotRewrite(f"the loop has to do with {min(ahead)} before it makes it")
    changed = changed_by(others) - (own - stored(loop.leading))
    changed |= changed_in_calls(module, others)
    for name in sorted(names_read(module, [*loop.making, *loop.hoisted, loop.node.iter])):
        if name in changed:
            raise CannotRewrite(f"the loop changes {name}, of which batches are made")
    making = [*loop.making, *map(ast.Expr, loop.hoisted)]
    seen = changed_in_place(making) | changed_in_calls(module, making)
    seen -= made_here(loop.making)
    if seen:  # by the step, if it is the batch
        raise CannotRewrite(f"making batches changes {min(seen)}, which others see")
    check_calls(module, [*loop.making, *loop.hoisted], others, loop.hoisted)

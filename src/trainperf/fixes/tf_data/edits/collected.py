"""Items that a generator makes one by one and collects: what makes them goes apart."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainperf.source.iterations import (
    carried,
    loaded,
    of_own_loop,
    of_this_function,
    stored,
)
from trainperf.source.module import Module
from trainperf.source.mutations import changed_by, changes_shared
from trainperf.source.scopes import Function
from trainperf.source.statements import names_in

LEAVES = (ast.Yield, ast.YieldFrom, ast.Return, ast.Await, ast.Global, ast.Nonlocal)
PARTS = ("made", "made_too", "made_third", "made_fourth")
"""Names for things that the loop put away without one."""

COLLECTS = ("append", "add", "extend")


@dataclass(frozen=True)
class Part:
    """The first statements of a loop that only make an item, and what the others need of it.

    `hoisted` are what the others collect without giving it a name, each with its name now.
    """

    taken: int
    results: Mapping[str, str]
    hoisted: tuple[tuple[ast.expr, str], ...]


def first_part(module: Module, function: Function, loop: ast.For) -> Part | None:
    """Return what of a loop's body makes an item by itself; None where nothing does."""
    if loop.orelse or of_own_loop(loop.body, ast.Break):
        return None
    targets = [loop.target, *getattr(loop.target, "elts", [])]
    if not all(isinstance(each, ast.Name | ast.Tuple | ast.List) for each in targets):
        return None
    taken = 0
    while taken < len(loop.body) and _makes(module, loop, taken):
        taken += 1
    making, rest = loop.body[:taken], loop.body[taken:]
    worked = [each for each in map(_collected, rest) if each is not None and _works([each])]
    alone = [each for each in worked if not changes_shared(module, [ast.Expr(each)])]
    if not rest or not _works([*making, *alone]):
        return None
    own = stored(making) | stored([loop.target])
    changed = changed_by(rest)
    alone = [each for each in alone if not loaded([each]) & (changed - own)]
    if loaded([*making, loop.iter]) & changed or own & (names_in(loop.iter) | changed):
        return None
    return _part(function, loop, taken, alone)


def _makes(module: Module, loop: ast.For, index: int) -> bool:
    """Whether a statement of a loop, with those before it, only makes things of one item."""
    ahead = loop.body[: index + 1]
    if any(isinstance(each, LEAVES) for each in of_this_function([ahead[-1]])):
        return False
    given = stored([loop.target])
    return not carried(ahead, given) and not changes_shared(module, ahead)


def _collected(statement: ast.stmt) -> ast.expr | None:
    """The item that `images.append(…)` puts away."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    only = len(call.args) == 1 and not call.keywords and call.func.attr in COLLECTS
    return call.args[0] if only and not isinstance(call.args[0], ast.Starred) else None


def _works(nodes: Sequence[ast.AST]) -> bool:
    return any(isinstance(each, ast.Call) for node in nodes for each in ast.walk(node))


def _part(function: Function, loop: ast.For, taken: int, alone: Sequence[ast.expr]) -> Part | None:
    """The part with the names that anything else in the generator reads of it."""
    making = loop.body[:taken]
    own = stored(making) | stored([loop.target])
    inside = {id(each) for one in (*making, *alone, loop.iter) for each in ast.walk(one)}
    read = {
        each.id
        for each in ast.walk(function)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and id(each) not in inside
    }
    used = {each.id for each in ast.walk(function) if isinstance(each, ast.Name)}
    free = [each for each in PARTS if each not in used]
    if len(alone) > len(free):
        return None
    order = [each.id for each in ast.walk(loop) if isinstance(each, ast.Name)]
    results = {name: name for name in dict.fromkeys(order) if name in own & read}
    hoisted = tuple(zip(alone, free, strict=False))
    given = [*(ast.Expr(ast.Name(one, ast.Load())) for one in results), *map(ast.Expr, alone)]
    if carried([*making, *given], stored([loop.target])):
        return None
    results |= {name: ast.unparse(each) for each, name in hoisted}
    return Part(taken, results, hoisted) if results else None

"""Loops whose items are made apart from them: by threads, ahead of what uses them."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from trainperf.errors import CannotRewrite
from trainperf.fixes.tf_data._mapped import YIELDS, put_in
from trainperf.model import Site
from trainperf.rewrite import Script
from trainperf.source.effects import changed_names, changes_shared
from trainperf.source.iterations import (
    carried,
    declared,
    loaded,
    of_own_loop,
    of_this_function,
    read_outside,
    stored,
)
from trainperf.source.module import Module
from trainperf.source.scopes import Function
from trainperf.source.statements import COLLECTS, assigned, names_in

_LEAVES = (ast.Yield, ast.YieldFrom, ast.Return, ast.Await, ast.Global, ast.Nonlocal)
_PARTS = ("made", "made_too", "made_third", "made_fourth")
"""Names for things that the loop put away without one."""

IN_PARALLEL = '''\
def in_parallel(function, items, calls):
    """Yield what `function` yields for each item, in order; threads work ahead on the next."""
    pool, ahead = futures.ThreadPoolExecutor(calls), collections.deque()
    try:
        for item in items:
            ahead.append(pool.submit(lambda item: list(function(item)), item))
            if len(ahead) > 2 * calls:
                yield from ahead.popleft().result()
        while ahead:
            yield from ahead.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
'''

AHEAD_OF = '''\
def ahead_of(items, count=4):
    """Yield the items in order; a thread makes the next ones meanwhile."""
    items, end = iter(items), object()
    pool = futures.ThreadPoolExecutor(1)
    ahead = collections.deque(pool.submit(next, items, end) for _ in range(count))
    try:
        while (item := ahead.popleft().result()) is not end:
            ahead.append(pool.submit(next, items, end))
            yield item
    finally:
        pool.shutdown(cancel_futures=True)
'''


def make_apart(script: Script, head: Site, calls: int) -> None:
    """Let threads make the items of the generator whose `def` is at `head`, `calls` at once.

    Raises `CannotRewrite` where an item may need what another has left.
    """
    function, module = script.definition(head), script.linked(head.file)
    loop = _loop(function)
    at = Site(head.file, loop.lineno)
    make = script.free_name(head.file, "make", "make_item")
    item = script.free_name(head.file, "item", "each_item")
    why = _why_not(module, function, loop)
    part = None if not why else _first_part(script, head.file, module, function, loop)
    if why and part is None:
        raise CannotRewrite(why)
    made = f"{put_in(script, head.file, IN_PARALLEL)}({make}, {{}}, calls={calls})"
    if part is None:
        script.loop_into_function(at, make, item, f"yield from {made}")
        return
    taken, results, hoisted = part
    for name, value in hoisted.items():
        script.replace_call(script.site_of(at, value), name)
    script.loop_part_into_function(at, taken, (make, item), results, made)


def _loop(function: Function) -> ast.For:
    """The innermost loop around all that is yielded, which makes what it yields."""
    loops = [
        node
        for node in of_this_function(function.body)
        if isinstance(node, ast.For | ast.While)
        and any(isinstance(part, YIELDS) for part in of_this_function(node.body))
    ]
    around = [
        outer for outer in loops if any(n in loops for n in ast.walk(outer) if n is not outer)
    ]
    inner = [loop for loop in loops if loop not in around]
    if len(inner) != 1:
        raise CannotRewrite("the generator yields in more than one loop, or in none")
    loop = inner[0]
    if isinstance(loop, ast.While):
        raise CannotRewrite("the generator yields in a `while` loop: what it counts is not seen")
    if not any(isinstance(node, ast.Call) for node in of_this_function(loop.body)):
        raise CannotRewrite("the loop that yields makes nothing: it hands out what is there")
    return loop


def _why_not(module: Module, function: Function, loop: ast.For) -> str:
    """Why a loop's iterations cannot be functions of their own; '' if they can."""
    body, own = loop.body, stored(loop.body) | stored([loop.target])
    returns = any(isinstance(node, ast.Return | ast.Await) for node in of_this_function(body))
    if returns or loop.orelse or of_own_loop(body, ast.Break):
        return "the generator's loop may be left before its end"
    if name := carried(body, stored([loop.target])):
        return f"an item needs what the one before left in {name}"
    if changed := changes_shared(module, body):
        return f"the items are not made apart: {changed}"
    if own & declared(function) or not plain_target(loop):
        return "the generator's loop counts in something that others see"
    end = loop.end_lineno or loop.lineno
    behind = [node for node in ast.walk(function) if getattr(node, "lineno", 0) > end]
    left = sorted(own & (loaded(behind) | names_in(loop.iter)))
    around = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.For | ast.While) and node is not loop and loop in ast.walk(node)
    ]
    if around and not left and (name := carried(around[0].body, (), own, without=loop)):
        left = [name]
    return f"what its loop leaves in {left[0]} is read outside it" if left else ""


def plain_target(loop: ast.For) -> bool:
    """Whether a loop counts in names, and in nothing that an object holds."""
    return all(isinstance(target, ast.Name) for target in assigned(loop))


_Part = tuple[int, dict[str, str], dict[str, ast.expr]]
"""How many statements of a loop make an item, what the others need of it, by name, and those
that the others collect without giving them a name."""


def _first_part(
    script: Script, file: str, module: Module, function: Function, loop: ast.For
) -> _Part | None:
    """Return what of a loop's body makes an item by itself; None where nothing does."""
    if not plain_target(loop):
        return None
    taken = 0
    while taken < len(loop.body) and _makes(module, loop, taken):
        taken += 1
    making, rest = loop.body[:taken], loop.body[taken:]
    own, changed = stored(making) | stored([loop.target]), changed_names(module, rest)
    hoisted: dict[str, ast.expr] = {}
    for value in map(_collected, rest):
        if value is None or not _works([value]) or loaded([value]) & (changed - own):
            continue
        if not changes_shared(module, [ast.Expr(value)]):
            hoisted[script.free_name(file, *_PARTS, beside=hoisted)] = value
    if not rest or not _works([*making, *hoisted.values()]):
        return None
    if loaded([*making, loop.iter]) & changed or own & (names_in(loop.iter) | changed):
        return None
    names, left = made_for_rest(loop, making, [*hoisted.values()], function)
    if left:
        return None
    results = {name: name for name in names}
    results |= {name: ast.unparse(value) for name, value in hoisted.items()}
    return (taken, results, hoisted) if results else None


def _makes(module: Module, loop: ast.For, index: int) -> bool:
    """Whether a statement of a loop, with those before it, only makes things of one item."""
    ahead = loop.body[: index + 1]
    leaves = any(isinstance(node, _LEAVES) for node in of_this_function([ahead[-1]]))
    if leaves or of_own_loop(ahead, ast.Break):
        return False
    return not carried(ahead, stored([loop.target])) and not changes_shared(module, ahead)


def _collected(statement: ast.stmt) -> ast.expr | None:
    """The item that `images.append(…)` puts away."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name), args=[item], keywords=[])):
            return item if name in COLLECTS and not isinstance(item, ast.Starred) else None
    return None


def _works(nodes: Sequence[ast.AST]) -> bool:
    return any(isinstance(part, ast.Call) for node in nodes for part in ast.walk(node))


def made_for_rest(
    loop: ast.For, making: Sequence[ast.stmt], hoisted: Sequence[ast.expr], scope: ast.AST
) -> tuple[list[str], str]:
    """The names that the rest of a loop's scope needs of what is `making` its items, in order.

    With the one of which an item needs what the one before left, '' if none. `hoisted` are
    expressions of the rest that are worked out with the item.
    """
    own = stored(making) | stored([loop.target])
    read = read_outside([scope], [*making, *hoisted, loop.iter])
    order = dict.fromkeys(node.id for node in ast.walk(loop) if isinstance(node, ast.Name))
    names = [name for name in order if name in own & read]
    given = [*(ast.Expr(ast.Name(name, ast.Load())) for name in names), *map(ast.Expr, hoisted)]
    return names, carried([*making, *given], stored([loop.target]))

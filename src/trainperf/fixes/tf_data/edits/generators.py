"""A generator whose items are made in several threads, where each is made by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainperf.errors import CannotRewrite
from trainperf.fixes.tf_data.edits.mapped import (
    YIELDS,
    call_at,
    generator_at,
    is_sent_values,
    parsed,
)
from trainperf.fixes.tf_data.edits.slices import rows, use_slices
from trainperf.model import Site
from trainperf.rewrite import Script
from trainperf.source.iterations import (
    carried,
    declared,
    loaded,
    of_own_loop,
    of_this_function,
    stored,
)
from trainperf.source.module import Module
from trainperf.source.mutations import changed_by, changes_shared
from trainperf.source.scopes import Function
from trainperf.source.statements import names_in

_LEAVES = (ast.Yield, ast.YieldFrom, ast.Return, ast.Await, ast.Global, ast.Nonlocal)
_PARTS = ("made", "made_too", "made_third", "made_fourth")
"""Names for things that the loop put away without one."""

_COLLECTS = ("append", "add", "extend")


@dataclass(frozen=True)
class Part:
    """The first statements of a loop that only make an item, and what the others need of it.

    `hoisted` are what the others collect without giving it a name, each with its name now.
    """

    taken: int
    results: Mapping[str, str]
    hoisted: tuple[tuple[ast.expr, str], ...]


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
    name = script.free_name(head.file, "make", "make_item")
    item = script.free_name(head.file, "item", "each_item")
    at = Site(head.file, loop.lineno)
    try:
        _check(module, function, loop)
    except CannotRewrite as whole:
        part = _first_part(module, function, loop)
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


def _first_part(module: Module, function: Function, loop: ast.For) -> Part | None:
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
    if any(isinstance(each, _LEAVES) for each in of_this_function([ahead[-1]])):
        return False
    given = stored([loop.target])
    return not carried(ahead, given) and not changes_shared(module, ahead)


def _collected(statement: ast.stmt) -> ast.expr | None:
    """The item that `images.append(…)` puts away."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    only = len(call.args) == 1 and not call.keywords and call.func.attr in _COLLECTS
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
    free = [each for each in _PARTS if each not in used]
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


IN_PARALLEL = '''\
def in_parallel(function, items, calls):
    """Yield what `function` yields for each item, in order; threads work ahead on the next."""
    pool, ahead = {futures}.ThreadPoolExecutor(calls), {collections}.deque()
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
    pool = {futures}.ThreadPoolExecutor(1)
    ahead = {collections}.deque(pool.submit(next, items, end) for _ in range(count))
    try:
        while (item := ahead.popleft().result()) is not end:
            ahead.append(pool.submit(next, items, end))
            yield item
    finally:
        pool.shutdown(cancel_futures=True)
'''


def put_in(script: Script, file: str, function: str) -> str:
    """Put one of the functions into a file, below its imports, and return its name.

    Raises `CannotRewrite` where the file uses what it imports for something else.
    """
    (definition,) = ast.parse(function.format(futures="futures", collections="collections")).body
    assert isinstance(definition, ast.FunctionDef)
    name = script.free_name(file, definition.name)
    collections = script.module_name(file, "collections")
    futures = script.module_name(file, "concurrent.futures")
    text = function.format(futures=futures, collections=collections)
    script.insert_function(file, text.replace(definition.name, name, 1))
    return name

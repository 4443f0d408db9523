"""The changes that statements of a PyTorch script make, as far as the source shows."""

from __future__ import annotations

import ast
import builtins
import copy
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from trainperf.errors import CannotRewrite
from trainperf.fixes.common.repeating import RANDOM
from trainperf.fixes.torch_step import _source as source
from trainperf.model import Site
from trainperf.rewrite import Script
from trainperf.source.statements import (
    Function,
    assigned,
    called,
    keeps_state,
    last_name,
    root,
    walk,
)

CHANGES = frozenset({
    "all_gather", "all_reduce", "backward", "barrier", "broadcast", "eval", "exit",
    "load_state_dict", "manual_seed", "next", "reduce", "seed", "setattr", "step", "terminate",
    "train", "unscale_", "update_parameters", "zero_grad",
})  # fmt: skip
"""Functions and methods that change the model, the optimizer, other ranks or the run.

Those whose name ends in `_` change a tensor, by PyTorch's own convention.
"""

TRAINS = ("backward", "step")

_Block = Sequence[ast.stmt]
_MAKES = (ast.Assign, ast.AnnAssign, ast.For)


def log_seldom(script: Script, site: Site, anchor: Site, every: int) -> None:
    """Have the loop at `anchor` look at what is read at `site` only every so many steps.

    That is the statement around `site`, with what makes only what it is given, or the calls of
    the function it stands in.
    Raises `CannotRewrite` where they do more than observe, or nothing counts the steps.
    """
    tree = script.module(site.file)
    loop = source.innermost_loop(script, anchor)
    first: ast.expr | None = None
    if site.file == anchor.file and loop in script.around(site):
        found = [source.call_around(script, site)]
        statement = found[0][0]
        more = changes(tree, [statement])
        block, owner = source.block_of(loop, statement), source.owner(script, anchor, loop)
        fed = _fed_from(statement, block, owner, partial(changes, tree))
        first = source.first_expression(fed)
    else:
        function = source.function_around(script, site)
        if function is None:
            raise CannotRewrite("what reads the number stands outside the loop")
        more = does_more(tree, function)
        found = source.calls_in(loop, function.name)
    if more:
        raise CannotRewrite(f"it does more than observe: {more}")
    step = counted(script, loop, anchor)
    for _, call in found:
        begins = script.site_of(anchor, first or call)
        script.wrap_statements(begins, script.site_of(anchor, call), f"if {step} % {every} == 0:")


COUNTERS = ("step", "batch_index", "turn", "step_index")


def counted(script: Script, loop: source.Loop, near: Site) -> str:
    """Return what counts the turns of a loop; one that has no counter is numbered.

    Raises `CannotRewrite` where that cannot be.
    """
    try:
        return source.counter(loop)
    except CannotRewrite:
        if not isinstance(loop, ast.For) or called_by(loop) in ("enumerate", "range"):
            raise
    name = script.free_name(near.file, *COUNTERS)
    script.number_turns(script.site_of(near, loop.iter), name)
    return name


def called_by(loop: ast.For) -> str:
    """The name of what gives a loop its items, '' where that is no call."""
    return called(loop.iter) if isinstance(loop.iter, ast.Call) else ""


def does_more(tree: ast.Module, function: Function) -> str:
    """Say what a function does beside observing, as far as its file shows; '' if nothing."""
    if isinstance(function, ast.AsyncFunctionDef):
        return "it is no plain function"
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in walk(function.body)):
        return "it is a generator"
    return changes(tree, function.body)


def changes(tree: ast.Module, body: Iterable[ast.stmt], seen: frozenset[str] = frozenset()) -> str:
    """Say what statements change that outlives them, functions of the file followed."""
    dropping = _Dropping(tree)
    body = [dropping.visit(copy.deepcopy(each)) for each in body]
    state = keeps_state(body)
    if state:
        return f"it changes {state} in every step"
    for node in walk(body):
        if isinstance(node, ast.Raise | ast.NamedExpr | ast.Await):
            return f"it has {ast.unparse(node)}"
        if not isinstance(node, ast.Call):
            continue
        name = called(node)
        if name in CHANGES or (name.endswith("_") and not name.endswith("__")):
            return f"it calls {ast.unparse(node.func)}()"
        if name in seen or root(node.func) not in (name, "self"):
            continue
        for each in ast.walk(tree):
            if isinstance(each, Function) and each.name == name:
                found = changes(tree, each.body, seen | {name})
                if found:
                    return f"{found}, in {name}()"
    return ""


MADE_OF = (ast.List, ast.Dict, ast.ListComp, ast.DictComp)
MAKERS = ("list", "dict", "deque", "defaultdict")


class _Dropping(ast.NodeTransformer):
    """Leaves out what is added to lists that nothing in their file reads: they are a log."""

    def __init__(self, tree: ast.Module) -> None:
        uses: Counter[str] = Counter()
        logs: Counter[str] = Counter()  # by name: uses that make a list, or add to it
        made: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Name | ast.Attribute):
                uses[_name(node)] += 1
            if isinstance(node, ast.Assign | ast.AnnAssign) and _makes(node.value):
                names = [_name(each) for each in assigned(node)]
                made |= set(names) if len(names) == 1 else set()
                logs.update(names)
            elif isinstance(node, ast.Expr):
                logs[_added_to(node)] += 1
        self._logs = {name for name in made if name and logs[name] == uses[name]}

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        """Leave of a statement that adds to a log only what it adds, and under which keys."""
        if _added_to(node) in self._logs and isinstance(node.value, ast.Call):
            call = node.value
            keys = [each.slice for each in ast.walk(call.func) if isinstance(each, ast.Subscript)]
            node.value = ast.copy_location(ast.Tuple([*call.args, *keys], ast.Load()), call)
        return node


def _makes(value: ast.expr | None) -> bool:
    made = isinstance(value, ast.Call) and called(value) in MAKERS
    return made or isinstance(value, MADE_OF)


def _added_to(node: ast.Expr) -> str:
    """The name of the list that a statement adds to; "" where it does something else."""
    call = node.value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return ""
    held = call.func.value
    while isinstance(held, ast.Subscript):
        held = held.value
    return _name(held) if call.func.attr == "append" else ""


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f".{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def trains(body: Iterable[ast.stmt]) -> bool:
    """Say whether statements call a backward or an update."""
    return any(isinstance(node, ast.Call) and called(node) in TRAINS for node in walk(body))


def _fed_from(
    statement: ast.stmt, block: _Block, owner: _Block, changes: Callable[[_Block], str]
) -> ast.stmt:
    """Return the first of those right before a statement that nothing but it needs, else itself.

    `block` holds it, `owner` is the body of the function around; `changes` says what statements
    change that outlives them. What calls the model, or may draw random numbers, stays.
    """
    last = next(index for index, each in enumerate(block) if each is statement)
    first = last
    for index in range(last - 1, -1, -1):
        if not isinstance(block[index], _MAKES) or not all(map(_only_reads, walk([block[index]]))):
            break
        together = block[index : last + 1]
        if _is_closed(together, owner) and not changes(together):
            first = index
    return block[first]


def _only_reads(node: ast.AST) -> bool:
    """Whether it is no call but a method's, a library's or a builtin function's."""
    if isinstance(node, ast.Name | ast.Attribute) and RANDOM.search(last_name(node)):
        return False
    if not isinstance(node, ast.Call):
        return True
    if isinstance(node.func, ast.Name):
        return hasattr(builtins, called(node)) and called(node) not in ("next", "input", "exec")
    return root(node.func) not in ("self", "")


def _is_closed(together: _Block, owner: _Block) -> bool:
    """Whether what statements assign is spoken of nowhere else in their function."""
    names = [node for node in walk(together) if isinstance(node, ast.Name)]
    made = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    inside = {id(node) for node in names}
    everywhere = (node for node in walk(owner) if isinstance(node, ast.Name))
    return all(id(node) in inside for node in everywhere if node.id in made)

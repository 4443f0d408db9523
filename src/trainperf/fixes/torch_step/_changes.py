"""Statements that only look on: what they change, and how they are made rarer."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from trainperf.errors import CannotRewrite
from trainperf.fixes.torch_step import _source as source
from trainperf.model import Site
from trainperf.rewrite import Script
from trainperf.source.effects import Effect, effects
from trainperf.source.iterations import outside, stored
from trainperf.source.module import Module
from trainperf.source.statements import (
    Function,
    assigned,
    called,
    walk,
)

COUNTERS = ("step", "batch_index", "turn", "step_index")
MAKERS = ("list", "dict", "deque", "defaultdict")

Block = Sequence[ast.stmt]


# ------------------------------------------------------------------------------ the edits


def log_seldom(script: Script, site: Site, anchor: Site, every: int) -> None:
    """Have the loop at `anchor` look at what is read at `site` only every so many steps.

    That is the statement around `site`, with what makes only what it is given, or the calls of
    the function it stands in.
    Raises `CannotRewrite` where they do more than observe, or nothing counts the steps.
    """
    module = script.source(site.file).module
    loop = source.innermost_loop(script, anchor)
    if site.file == anchor.file and loop in script.around(site):
        inside = script.around(site)[-1]
        beside = _plain_calls(source.innermost_loop(script, site).body)
        calls = [call for statement, call in beside if statement is inside]
        more, first = changes(module, [inside]), inside
        if calls:
            first = _fed_from(module, inside, _owner(script, anchor, loop))
    else:
        function, first = source.function_around(script, site), None
        if function is None:
            raise CannotRewrite("what reads the number stands outside the loop")
        more, name = changes(module, function.body), function.name
        calls = [call for _, call in _plain_calls(loop.body) if called(call) == name]
    if more:
        raise CannotRewrite(f"it does more than observe: {more}")
    if not calls:
        raise CannotRewrite("what reads the number does more than show it")
    step = _counted(script, loop, anchor)
    for call in calls:
        begins = script.site_of(anchor, _first_expression(first) if first is not None else call)
        script.wrap_statements(begins, script.site_of(anchor, call), f"if {step} % {every} == 0:")


def _counted(script: Script, loop: source.Loop, near: Site) -> str:
    """Return what counts the turns of a loop; one that has no counter is numbered.

    Raises `CannotRewrite` where that cannot be.
    """
    try:
        return source.counter(loop)
    except CannotRewrite:
        given = loop.iter if isinstance(loop, ast.For) else None
        numbered = isinstance(given, ast.Call) and called(given) in ("enumerate", "range")
        if given is None or numbered:
            raise
    name = script.free_name(near.file, *COUNTERS)
    script.number_turns(script.site_of(near, given), name)
    return name


# ---------------------------------------------------------------------- where they stand


def _blocks(body: Block) -> Iterator[Block]:
    """The blocks whose statements every turn of the loop makes."""
    yield body
    for node in body:
        if isinstance(node, ast.With | ast.AsyncWith):
            yield from _blocks(node.body)


def _plain_calls(body: Block) -> Iterator[tuple[ast.stmt, ast.Call]]:
    """The statements that every turn of a loop makes, and that are only a call."""
    for node in (node for block in _blocks(body) for node in block):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield node, node.value


def _owner(script: Script, anchor: Site, loop: source.Loop) -> Block:
    """The statements of the function that the loop stands in, or of its module."""
    body: Block = script.module(anchor.file).body
    for node in script.around(anchor):
        if isinstance(node, Function) and node.lineno <= loop.lineno:
            body = node.body
    return body


def _first_expression(statement: ast.stmt) -> ast.expr:
    """The first expression of a statement: where it begins, for one of the usual kinds."""
    for node in ast.iter_child_nodes(statement):
        if isinstance(node, ast.expr):
            return node
    raise CannotRewrite("what reads it begins with no expression")


def _fed_from(module: Module, statement: ast.stmt, owner: Block) -> ast.stmt:
    """The first of those right before a statement that nothing but it needs, else itself.

    `owner` is the body of the function around. What calls the model, or may draw random numbers,
    stays.
    """
    bodies = (getattr(node, "body", None) for node in walk(owner))
    block = next(body for body in bodies if isinstance(body, list) and statement in body)
    last = block.index(statement)
    earliest = statement
    for index in range(last - 1, -1, -1):
        made = block[index]
        plain = isinstance(made, ast.Assign | ast.AnnAssign | ast.For)
        if not plain or any(map(_may_be_model, effects(module, [made]))):
            break
        together = block[index : last + 1]
        others = outside(owner, together)
        spoken_of = {node.id for node in others if isinstance(node, ast.Name)}
        if not stored(together) & spoken_of and not changes(module, together):
            earliest = made
    return earliest


def _may_be_model(effect: Effect) -> bool:
    """Whether random numbers are drawn, or something is called that is no library's."""
    own = "." not in effect.source or effect.source.startswith("self.")
    return effect.kind == "draws" or (effect.kind == "unknown" and own)


# ------------------------------------------------------------------------ what they change


def changes(module: Module, body: Iterable[ast.AST]) -> str:
    """Say what statements change that outlives them, functions of the file followed."""
    for effect in effects(module, body):
        if effect.kind in ("steers", "ends"):
            return f"it {'calls' if effect.kind == 'steers' else 'has'} {effect.text}"
        if effect.kind in ("sets", "fills") and not effect.own:
            held = _added_to(effect.node)
            if held is None or not _is_log(module, held):
                return f"it changes {effect.text} in every step"
    return ""


def _added_to(node: ast.AST) -> ast.expr | None:
    """`x` of the call `x.append(…)`, None of anything else."""
    func = node.func if isinstance(node, ast.Call) else None
    return func.value if isinstance(func, ast.Attribute) and func.attr == "append" else None


def _is_log(module: Module, held: ast.expr) -> bool:
    """Whether nothing in its file reads a list, or lists by keys: it is made, and added to."""
    name, made, added, uses = _name(held), 0, 0, 0
    for node in module.nodes:
        uses += isinstance(node, ast.Name | ast.Attribute) and _name(node) == name
        if isinstance(node, ast.Expr):
            added_to = _added_to(node.value)
            added += added_to is not None and _name(added_to) == name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            made += [_name(target) for target in assigned(node)] == [name] and _makes(node.value)
    return made > 0 and made + added == uses


def _makes(value: ast.expr | None) -> bool:
    made = isinstance(value, ast.Call) and called(value) in MAKERS
    return made or isinstance(value, ast.List | ast.Dict | ast.ListComp | ast.DictComp)


def _name(held: ast.expr) -> str:
    while isinstance(held, ast.Subscript):
        held = held.value
    return f".{held.attr}" if isinstance(held, ast.Attribute) else ast.unparse(held)

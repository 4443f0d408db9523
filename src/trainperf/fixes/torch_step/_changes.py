"""Statements that only look on: what they change, how they are made rarer, sums on the device."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from trainperf.errors import CannotRewrite
from trainperf.fixes.torch_step import _source as source
from trainperf.model import Site
from trainperf.rewrite import Script
from trainperf.source.effects import Effect, effects
from trainperf.source.iterations import declared, loaded, outside, read_outside, stored
from trainperf.source.module import Module
from trainperf.source.scopes import FUNCTIONS
from trainperf.source.statements import called, last_name, walk

COUNTERS = ("step", "batch_index", "turn", "step_index")

Block = Sequence[ast.stmt]


def log_seldom(script: Script, site: Site, anchor: Site, every: int) -> None:
    """Have the loop at `anchor` look at what is read at `site` only every so many steps.

    That is the statement around `site`, with what makes only what it is given, or the calls of
    the function it stands in.
    Raises `CannotRewrite` where they do more than observe, or nothing counts the steps.
    """
    module = script.source(site.file).module
    loop = source.innermost_loop(script, anchor)
    function, first = source.function_around(script, site), None
    if site.file == anchor.file and loop in script.around(site):
        inside = script.around(site)[-1]
        beside = _plain_calls(source.innermost_loop(script, site).body)
        calls = [call for statement, call in beside if statement is inside]
        more = changes(module, [inside])
        if calls:
            owner = source.function_around(script, anchor) or script.module(anchor.file)
            first = _fed_from(module, inside, owner.body)
    elif function is None:
        raise CannotRewrite("what reads the number stands outside the loop")
    else:
        more = changes(module, function.body)
        calls = [call for _, call in _plain_calls(loop.body) if called(call) == function.name]
    if more:
        raise CannotRewrite(f"it does more than observe: {more}")
    if not calls:
        raise CannotRewrite("what reads the number does more than show it")
    step = _counted(script, loop, anchor)
    for call in calls:
        begins = next((n for n in walk([first or call]) if isinstance(n, ast.expr)), call)
        script.wrap_statements(
            script.site_of(anchor, begins),
            script.site_of(anchor, call),
            f"if {step} % {every} == 0:",
        )


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


def _plain_calls(body: Block) -> Iterator[tuple[ast.stmt, ast.Call]]:
    """The statements that every turn of a loop makes, and that are only a call."""
    for node in body:
        if isinstance(node, ast.With | ast.AsyncWith):
            yield from _plain_calls(node.body)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield node, node.value


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


def changes(module: Module, body: Iterable[ast.AST]) -> str:
    """Say what statements change that outlives them, functions of the file followed."""
    for effect in effects(module, body):
        if effect.kind in ("steers", "ends"):
            return f"it {'calls' if effect.kind == 'steers' else 'has'} {effect.text}"
        if effect.kind in ("sets", "fills") and not effect.own:
            return f"it changes {effect.text} in every step"
    return ""


# ---------------------------------------------------------------------- sums on the device

WRITERS = frozenset({
    "add_histogram", "add_image", "add_images", "add_scalar", "add_scalars", "debug", "dump",
    "dumps", "flush", "info", "log", "print", "save", "savefig", "set_description", "set_postfix",
    "warning", "write", "writerow",
})  # fmt: skip
"""Functions of libraries that put something on record."""


def kept_on_device(script: Script, site: Site, every: int | None = None) -> None:
    """Have what `site` reads of the device read where it is used, not in each step.

    `total += loss.item()` adds up tensors then, as does a count of hits; behind the loop they
    become numbers. With `every`, a call that only shows the sum in each step does so every so
    many. Raises `CannotRewrite` where it is read in every step all the same.
    """
    call, module = script.source(site.file).expression(site), script.source(site.file).module
    func = call.func if isinstance(call, ast.Call) and not call.args else None
    read = func.value if isinstance(func, ast.Attribute) and func.attr == "item" else None
    loss = read is not None and "loss" in last_name(read).lower()
    if read is None or not (loss or _counts(read)):
        raise CannotRewrite("what is read is neither a loss nor a count of hits")
    statement, loop = script.around(site)[-1], source.innermost_loop(script, site)
    scope = source.function_around(script, site) or script.module(site.file)
    names = _sums(loop, statement, call)
    inner = (
        n for n in walk(ast.iter_child_nodes(scope)) if isinstance(n, (*FUNCTIONS, ast.Lambda))
    )
    if names.keys() & (declared(scope) | loaded(inner)):
        raise CannotRewrite("a sum is read elsewhere: it would stay a tensor there")
    number = "float({})" if loss else "int({})"
    uses = [
        node
        for node in outside(loop.body, names.values())
        if isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load)
    ]
    wrapped = [use for use in uses if not _in_text(module, use)]
    for use in uses:
        around = list(module.around(use))
        below = zip([use, *around], around[: around.index(loop)], strict=False)
        if any(isinstance(node, ast.If) and part is not node.test for part, node in below):
            continue
        shown = next(node for node in around if isinstance(node, ast.stmt))
        shows = shown.value if isinstance(shown, ast.Expr) else None
        if every is None or not isinstance(shows, ast.Call) or called(shows) not in WRITERS:
            raise CannotRewrite(f"{use.id} is read in every step, in line {use.lineno}")
        log_seldom(script, script.site_of(site, shows), site, every)
    receiver = script.expression(script.receiver(site))
    script.replace_call(site, f"{receiver}.detach().float()" if loss else receiver)
    for use in wrapped:
        script.wrap_call(script.site_of(site, use), number)
    behind = Site(site.file, loop.lineno, site.function)
    for name in sorted(read_outside([scope], [loop]) & names.keys()):
        script.insert_after(behind, f"{name} = {number.format(name)}")


def _counts(summed: ast.expr) -> bool:
    """Whether it is `(a == b).sum()` or `torch.sum(a == b)`: a whole number."""
    if not isinstance(summed, ast.Call) or called(summed) != "sum" or summed.keywords:
        return False
    args = list(summed.args)
    if isinstance(summed.func, ast.Attribute) and ast.unparse(summed.func.value) != "torch":
        args = [summed.func.value, *args]
    hits = args[0] if len(args) == 1 else None
    return isinstance(hits, ast.Compare) or (isinstance(hits, ast.Call) and called(hits) == "eq")


def _sum_of(statement: ast.stmt, number: ast.expr) -> str:
    """The sum that `total += x` and `total = total + x` add to, '' for anything else.

    `number` is x, or what x is that times or by something.
    """
    match statement:
        case ast.AugAssign(target=ast.Name(id=total), op=ast.Add(), value=value):
            pass
        case ast.Assign(
            targets=[ast.Name(id=total)],
            value=ast.BinOp(left=ast.Name(id=before), op=ast.Add(), right=value),
        ) if before == total:
            pass
        case _:
            return ""
    while isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult | ast.Div):
        by_it = isinstance(value.op, ast.Mult) and value.right is number
        value = value.right if by_it else value.left
    return total if value is number else ""


def _sums(loop: source.Loop, statement: ast.stmt, call: ast.expr) -> dict[str, ast.stmt]:
    """The sum that what is called is added to, or a name for it and the sums of that.

    Each with the statement that gives it.
    """
    if total := _sum_of(statement, call):
        return {total: statement}
    name = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(name, ast.Name) or getattr(statement, "value", None) is not call:
        raise CannotRewrite("the number that is read is not added to a sum")
    found: dict[str, ast.stmt] = {name.id: statement}
    for adding in (node for node in walk(loop.body) if isinstance(node, ast.stmt)):
        of_it = (node for node in ast.walk(adding) if isinstance(node, ast.Name))
        totals = (_sum_of(adding, node) for node in of_it if node.id == name.id)
        found |= {total: adding for total in totals if total}
    return found


def _in_text(module: Module, use: ast.AST) -> bool:
    """Whether a text formats what is used, as it formats a number; refuses calls within it."""
    called_by = False
    for node in module.around(use):
        if isinstance(node, ast.JoinedStr):
            if called_by:
                raise CannotRewrite("a sum is used by a call within a text")
            return True
        called_by |= isinstance(node, ast.Call)
    return False

"""Statements that only look on: what they change, how they are made rarer, sums on the device."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence

from trainperf.errors import CannotRewrite
from trainperf.fixes.torch_step import _source as source
from trainperf.model import Site
from trainperf.rewrite import Script
from trainperf.source.effects import Effect, effects
from trainperf.source.iterations import outside, read_outside, stored
from trainperf.source.module import Module
from trainperf.source.statements import Function, assigned, called, last_name, walk

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


# ---------------------------------------------------------------------- sums on the device

WRITERS = frozenset({
    "add_histogram", "add_image", "add_images", "add_scalar", "add_scalars", "debug", "dump",
    "dumps", "flush", "info", "log", "print", "save", "savefig", "set_description", "set_postfix",
    "warning", "write", "writerow",
})  # fmt: skip
"""Functions of libraries that put something on record."""

OF_TENSORS = ("len", "max", "min", "sum")
"""Functions that make of a list of tensors what can be formatted."""


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
    _check_own(scope, names)
    number = "float({})" if loss else "int({})"
    wrapped = []
    for use in _uses(module, loop, names):
        if _in_every_step(module, use, loop):
            if every is None:
                raise CannotRewrite(f"{use.id} is read in every step, in line {use.lineno}")
            _show_seldom(script, site, use, every)
        if not _text_around(module, use):
            wrapped.append(use)
    receiver = script.expression(script.receiver(site))
    script.replace_call(site, f"{receiver}.detach().float()" if loss else receiver)
    for use in wrapped:
        script.wrap_call(script.site_of(site, use), number)
    behind = Site(site.file, loop.lineno, site.function)
    for name in sorted(read_outside([scope], [loop]) & names.keys()):
        script.insert_after(behind, f"{name} = {number.format(name)}")


# ------------------------------------------------------------------------ what is read


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
    target: ast.expr
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        target, value = statement.target, statement.value
    elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BinOp):
        [target, *more], added = statement.targets, statement.value
        same = ast.unparse(target) == ast.unparse(added.left)
        if more or not isinstance(added.op, ast.Add) or not same:
            return ""
        value = added.right
    else:
        return ""
    while isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult | ast.Div):
        by_it = isinstance(value.op, ast.Mult) and value.right is number
        value = value.right if by_it else value.left
    return target.id if isinstance(target, ast.Name) and value is number else ""


# ---------------------------------------------------------------------- where it is used


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


def _uses(module: Module, loop: source.Loop, names: dict[str, ast.stmt]) -> list[ast.Name]:
    """The places of a loop that read names, but where they are added to; refuses some texts."""
    found = []
    for node in outside(loop.body, names.values()):
        if not isinstance(node, ast.Name) or node.id not in names:
            continue
        if not isinstance(node.ctx, ast.Load):
            continue
        for inner in _text_around(module, node):
            if isinstance(inner, ast.Call) and called(inner) not in OF_TENSORS:
                raise CannotRewrite(f"{node.id} is used by a call within a text")
            if isinstance(inner, ast.FormattedValue) and inner.conversion > 0:
                raise CannotRewrite(f"{node.id} is shown within a text as Python writes it")
        found.append(node)
    return found


def _text_around(module: Module, use: ast.AST) -> list[ast.AST]:
    """The nodes from a use to the text that formats it, none where that is not in a text."""
    around = list(module.around(use))
    texts = [index for index, node in enumerate(around) if isinstance(node, ast.JoinedStr)]
    return around[: texts[0] + 1] if texts else []


def _in_every_step(module: Module, use: ast.AST, loop: source.Loop) -> bool:
    below = use
    for node in module.around(use):
        if node is loop:
            return True
        if isinstance(node, ast.If) and below is not node.test:
            return False
        below = node
    return False


def _show_seldom(script: Script, site: Site, use: ast.Name, every: int) -> None:
    """Show a sum every so many steps, where its statement does nothing else with it."""
    around = script.source(site.file).module.around(use)
    statement = next(node for node in around if isinstance(node, ast.stmt))
    shown = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(shown, ast.Call) or called(shown) not in WRITERS:
        raise CannotRewrite(f"{use.id} is read in every step, in line {use.lineno}")
    log_seldom(script, script.site_of(site, shown), site, every)


def _check_own(scope: ast.AST, names: Collection[str]) -> None:
    """Refuse a sum that is read elsewhere as well: there it would stay a tensor."""
    for node in ast.walk(scope):
        if isinstance(node, ast.Global | ast.Nonlocal) and set(node.names) & set(names):
            raise CannotRewrite(f"a sum is {type(node).__name__.lower()}: it is read elsewhere")
        inner = node is not scope and isinstance(node, ast.FunctionDef | ast.Lambda)
        if inner and any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(node)):
            raise CannotRewrite("a sum is read in a function of its own")

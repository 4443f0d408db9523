"""Sums, counts and lists of losses that stay on the device until they are read."""

from __future__ import annotations

import ast

from trainperf.errors import CannotRewrite
from trainperf.fixes.torch_step import _source as source
from trainperf.fixes.torch_step._changes import log_seldom
from trainperf.fixes.torch_step._lookers import WRITERS
from trainperf.model import Site
from trainperf.rewrite import Script
from trainperf.source.module import Module
from trainperf.source.statements import called, last_name

OF_TENSORS = ("len", "max", "min", "sum")
"""Functions that make of a list of tensors what can be formatted."""


def kept_on_device(script: Script, site: Site, every: int | None = None) -> None:
    """Have what `site` reads of the device read where it is used, not in each step.

    `total += loss.item()` adds up tensors then, as does a count of hits; `losses.append(…)`
    collects them. With `every`, a call that only shows the sum in each step does so every so
    many. Raises `CannotRewrite` where it is read in every step all the same.
    """
    call, module = script.source(site.file).expression(site), script.source(site.file).module
    read = _read_by(call)
    loss = read is not None and "loss" in last_name(read).lower()
    if read is None or not (loss or _counts(read)):
        raise CannotRewrite("what is read is neither a loss nor a count of hits")
    statement = script.around(site)[-1]
    if loss and _list_of(statement, call):
        _collect(script, site, statement, _list_of(statement, call), ast.unparse(read))
        return
    uses = _late_uses(script, site, statement, call)
    loop = source.innermost_loop(script, site)
    shown = [use for use in uses if _in_every_step(module, use, loop)]
    if shown and every is None:
        raise CannotRewrite(f"{shown[0].id} is read in every step, in line {shown[0].lineno}")
    for use in shown:
        _show_seldom(script, site, use, every or 1)
    receiver = script.expression(script.receiver(site))
    script.replace_call(site, f"{receiver}.detach().float()" if loss else receiver)
    for use in uses:
        if not _text_around(module, use):
            script.wrap_call(script.site_of(site, use), "float({})" if loss else "int({})")


# ------------------------------------------------------------------------ what is read


def _read_by(call: ast.expr) -> ast.expr | None:
    """`x` of `x.item()`."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    plain = call.func.attr == "item" and not call.args and not call.keywords
    return call.func.value if plain else None


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


def _late_uses(script: Script, site: Site, statement: ast.stmt, call: ast.expr) -> list[ast.Name]:
    """Where a sum of what is called is read, or a name for it and the sums of that."""
    total = _sum_of(statement, call)
    if total:
        return _uses(script, site, total, statement)
    name = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(name, ast.Name) or getattr(statement, "value", None) is not call:
        raise CannotRewrite("the number that is read is not added to a sum")
    module, found = script.source(site.file).module, []
    for use in _uses(script, site, name.id, statement):
        adding = next(node for node in module.around(use) if isinstance(node, ast.stmt))
        total = _sum_of(adding, use)
        found += _uses(script, site, total, adding) if total else [use]
    return found


def _uses(script: Script, site: Site, name: str, adding: ast.stmt) -> list[ast.Name]:
    """The places of the scope that read a name, but where it is added to.

    Refuses those that may run anywhere.
    """
    module, found = script.source(site.file).module, []
    for node in ast.walk(source.function_around(script, site) or script.module(site.file)):
        if isinstance(node, ast.Global | ast.Nonlocal) and name in node.names:
            raise CannotRewrite(f"{name} is {type(node).__name__.lower()}")
        if not isinstance(node, ast.Name) or node.id != name or not isinstance(node.ctx, ast.Load):
            continue
        around = list(module.around(node))
        if adding in around:
            continue
        if module.function(node) is not module.function(adding):
            raise CannotRewrite(f"{name} is used in a function of its own")
        for inner in _text_around(module, node):
            if isinstance(inner, ast.Call) and called(inner) not in OF_TENSORS:
                raise CannotRewrite(f"{name} is used by a call within a text")
            if isinstance(inner, ast.FormattedValue) and inner.conversion > 0:
                raise CannotRewrite(f"{name} is shown within a text as Python writes it")
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


# --------------------------------------------------------------------- lists of losses


def _list_of(statement: ast.stmt, call: ast.expr) -> str:
    """The list of `losses.append(call)`, '' for another statement."""
    added = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(added, ast.Call) or added.args != [call] or called(added) != "append":
        return ""
    held = added.func.value if isinstance(added.func, ast.Attribute) else None
    return held.id if isinstance(held, ast.Name) else ""


def _collect(script: Script, site: Site, statement: ast.stmt, name: str, read: str) -> None:
    """Collect tensors in a list, and make them numbers where the list is read."""
    module, loop = script.source(site.file).module, source.innermost_loop(script, site)
    end = _end_of_list(script, site, name)
    for node in ast.walk(loop):
        changed: ast.expr | None = node.target if isinstance(node, ast.AugAssign) else None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            changed = node.func.value if node.func.attr.endswith("_") else None  # loss.div_(2)
        if changed is not None and ast.unparse(changed) == read:
            raise CannotRewrite(f"{read} is changed in line {changed.lineno}")
    wrapped = []
    for use in _uses(script, site, name, statement):
        found = _as_numbers(module, use) if end is None or use.lineno <= end else None
        if found is not None and _in_every_step(module, use, loop):
            raise CannotRewrite(f"{name} is read in every step, in line {use.lineno}")
        if found is not None and not _text_around(module, use):
            wrapped.append(found)
    script.replace_call(site, f"{script.expression(script.receiver(site))}.detach()")
    for node, template in wrapped:
        script.wrap_call(script.site_of(site, node), template)


def _end_of_list(script: Script, site: Site, name: str) -> int | None:
    """The last line in which a name is the list, None if it is to the end of its scope.

    Refuses a list that does not begin empty there, and one that becomes something else but
    by `losses = np.mean(losses)` behind the loop, in the block in which it begins.
    """
    module = script.source(site.file).module
    empty: list[ast.stmt] = []
    others: list[ast.stmt] = []
    for node in ast.walk(source.function_around(script, site) or script.module(site.file)):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if ast.unparse(target) == name:
                (empty if ast.unparse(node.value or node) == "[]" else others).append(node)
    if not empty or len(others) > 1 or (others and len(empty) > 1):
        raise CannotRewrite(f"{name} is not an empty list of this function's to begin with")
    if not others:
        return None
    beside = [
        node for node in script.around(site) if module.parent(node) is module.parent(empty[0])
    ]
    same = module.parent(others[0]) is module.parent(empty[0])
    if not same or not beside or others[0].lineno < (beside[0].end_lineno or 0):
        raise CannotRewrite(f"{name} becomes something else, in line {others[0].lineno}")
    return others[0].end_lineno


def _as_numbers(module: Module, use: ast.Name) -> tuple[ast.expr, str] | None:
    """What of a read of a list of tensors is made numbers, and how.

    None where its items are not read: appending, its length. Refuses other methods.
    """
    above = module.parent(use)
    if isinstance(above, ast.Attribute):
        if above.attr not in ("append", "clear"):
            raise CannotRewrite(f"{use.id}.{above.attr} is used, in line {use.lineno}")
        return None
    if isinstance(above, ast.Call) and called(above) == "len":
        return None
    if isinstance(above, ast.Subscript) and not isinstance(above.ctx, ast.Load):
        raise CannotRewrite(f"{use.id} is changed in line {use.lineno}")
    if isinstance(above, ast.Subscript) and not isinstance(above.slice, ast.Slice):
        return above, "float({})"
    return use, "[float(each) for each in {}]"

"""Sums, counts and lists of losses that stay on the device until they are read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from trainperf.errors import CannotRewrite
from trainperf.fixes.torch_step import _source as source
from trainperf.fixes.torch_step._changes import log_seldom
from trainperf.fixes.torch_step._lookers import WRITERS
from trainperf.model import Site
from trainperf.rewrite import Script
from trainperf.source.statements import Function, called

FUNCTIONS = Function | ast.Lambda | ast.ClassDef
Use = tuple[ast.Name, tuple[ast.AST, ...]]

OF_TENSORS = ("len", "max", "min", "sum")
"""Functions that make of a list of tensors what can be formatted."""


def kept_on_device(script: Script, site: Site, every: int | None = None) -> None:
    """Have what `site` reads of the device read where it is used, not in each step.

    `total += loss.item()` adds up tensors then, as does a count of hits; `losses.append(…)`
    collects them. With `every`, a call that only shows the sum in each step does so every so
    many. Raises `CannotRewrite` where it is read in every step all the same.
    """
    call = ast.parse(f"({script.expression(site)})", mode="eval").body
    loss, count = _reads_loss(call), _counts(call)
    if not loss and not count:
        raise CannotRewrite("what is read is neither a loss nor a count of hits")
    statement = script.around(site)[-1]
    if loss and _appended(statement, call):
        _collect(script, site, statement)
        return
    uses = _late_uses(script, site, statement, ast.dump(call))
    loop = source.innermost_loop(script, site)
    shown = [use for use in uses if _in_every_step(use, loop)]
    if shown and every is None:
        name = shown[0][0]
        raise CannotRewrite(f"{name.id} is read in every step, in line {name.lineno}")
    for name, parents in shown:
        _show_seldom(script, site, name, parents, every or 1)
    receiver = script.expression(script.receiver(site))
    script.replace_call(site, f"{receiver}.detach().float()" if loss else receiver)
    for name, parents in uses:
        if not any(isinstance(each, ast.JoinedStr) for each in parents):
            read = script.site_of(site, name)
            script.wrap_call(read, "float({})" if loss else "int({})")


# ------------------------------------------------------------------------ what is read


def _reads_loss(call: ast.expr) -> bool:
    """Whether it is `loss.item()`, by the name."""
    read = _item_of(call)
    name = read.attr if isinstance(read, ast.Attribute) else getattr(read, "id", "")
    return "loss" in name.lower()


def _counts(call: ast.expr) -> bool:
    """Whether it is `(a == b).sum().item()` or `torch.sum(a == b).item()`: a whole number."""
    summed = _item_of(call)
    if not isinstance(summed, ast.Call) or called(summed) != "sum" or summed.keywords:
        return False
    args = list(summed.args)
    if isinstance(summed.func, ast.Attribute) and ast.unparse(summed.func.value) != "torch":
        args = [summed.func.value, *args]
    return len(args) == 1 and (
        isinstance(args[0], ast.Compare)
        or (isinstance(args[0], ast.Call) and called(args[0]) == "eq")
    )


def _item_of(call: ast.expr) -> ast.expr | None:
    """`x` of `x.item()`."""
    plain = isinstance(call, ast.Call) and not call.args and not call.keywords
    if plain and isinstance(call.func, ast.Attribute) and call.func.attr == "item":  # type: ignore[attr-defined]
        value: ast.expr = call.func.value  # type: ignore[attr-defined]
        return value
    return None


def _sum_of(statement: ast.stmt, call: str) -> str:
    """The sum that `total += call` and `total = total + call` add to, '' for anything else."""
    target: ast.expr
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        target, value = statement.target, statement.value
    elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BinOp):
        target, value = statement.targets[0], statement.value.right
        same = ast.unparse(target) == ast.unparse(statement.value.left)
        if len(statement.targets) != 1 or not isinstance(statement.value.op, ast.Add) or not same:
            return ""
    else:
        return ""
    plain = isinstance(target, ast.Name) and _is_product_with(value, call)
    return target.id if plain else ""  # type: ignore[attr-defined]


def _is_product_with(value: ast.expr, call: str) -> bool:
    """Whether a value is the call, or that times or by something without calls of `item`."""
    while isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult | ast.Div):
        if isinstance(value.op, ast.Mult) and ast.dump(value.right) == call:
            return True
        value = value.left
    return ast.dump(value) == call


# ---------------------------------------------------------------------- where it is used


def _late_uses(script: Script, site: Site, statement: ast.stmt, call: str) -> list[Use]:
    """Where a sum of what is called is read, or a name for it and the sums of that."""
    total = _sum_of(statement, call)
    if total:
        return _uses_of(script, site, total, statement)
    name = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(name, ast.Name) or ast.dump(statement.value) != call:  # type: ignore[attr-defined]
        raise CannotRewrite("the number that is read is not added to a sum")
    found = []
    for use in _uses_of(script, site, name.id, statement):
        adding = [each for each in use[1] if isinstance(each, ast.stmt)][-1]
        total = _sum_of(adding, ast.dump(use[0]))
        found += _uses_of(script, site, total, adding) if total else [use]
    return found


def _uses_of(script: Script, site: Site, name: str, adding: ast.stmt) -> list[Use]:
    """The places of the scope that read a name, but where it is added to.

    Refuses those that may run anywhere.
    """
    scope = source.function_around(script, site) or script.module(site.file)
    uses = [use for use in _uses(scope, name, ()) if adding not in use[1]]
    for read, parents in uses:
        if any(isinstance(each, FUNCTIONS) for each in parents[1:]):
            raise CannotRewrite(f"{read.id} is used in a function of its own")
        strings = [index for index, each in enumerate(parents) if isinstance(each, ast.JoinedStr)]
        inside = parents[strings[-1] :] if strings else ()
        calls = [each for each in inside if isinstance(each, ast.Call)]
        if any(called(each) not in OF_TENSORS for each in calls):
            raise CannotRewrite(f"{read.id} is used by a call within a text")
        if any(isinstance(each, ast.FormattedValue) and each.conversion > 0 for each in inside):
            raise CannotRewrite(f"{read.id} is shown within a text as Python writes it")
    return uses


def _uses(node: ast.AST, name: str, parents: tuple[ast.AST, ...]) -> Iterator[Use]:
    """Every place of a scope that reads a name, with the nodes around it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Name) and child.id == name and isinstance(child.ctx, ast.Load):
            yield child, (*parents, node)
        elif isinstance(child, ast.Global | ast.Nonlocal) and name in child.names:
            raise CannotRewrite(f"{name} is {type(child).__name__.lower()}")
        else:
            yield from _uses(child, name, (*parents, node))


def _in_every_step(use: Use, loop: source.Loop) -> bool:
    parents = use[1]
    if loop not in parents:
        return False
    inner = (*parents[parents.index(loop) :], use[0])
    return not any(
        isinstance(each, ast.If) and each.test is not below for each, below in pairwise(inner)
    )


def _show_seldom(
    script: Script, site: Site, name: ast.Name, parents: tuple[ast.AST, ...], every: int
) -> None:
    """Show a sum every so many steps, where its statement does nothing else with it."""
    statement = [each for each in parents if isinstance(each, ast.stmt)][-1]
    shows = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    if not shows or called(statement.value) not in WRITERS:  # type: ignore[attr-defined]
        raise CannotRewrite(f"{name.id} is read in every step, in line {name.lineno}")
    shown = script.site_of(site, statement.value)  # type: ignore[attr-defined]
    log_seldom(script, shown, site, every)


# --------------------------------------------------------------------- lists of losses


def _appended(statement: ast.stmt, call: ast.expr) -> bool:
    """Whether the statement is `losses.append(call)`."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    added = statement.value
    plain = isinstance(added.func, ast.Attribute) and isinstance(added.func.value, ast.Name)
    if not plain or called(added) != "append" or len(added.args) != 1:
        return False
    return ast.dump(added.args[0]) == ast.dump(call)


def _collect(script: Script, site: Site, statement: ast.stmt) -> None:
    """Collect tensors in a list, and make them numbers where the list is read."""
    assert isinstance(statement, ast.Expr)
    name = ast.unparse(statement.value.func.value)  # type: ignore[attr-defined]
    loop = source.innermost_loop(script, site)
    end = _end_of_list(script, site, name)
    read = ast.unparse(_item_of(statement.value.args[0]) or statement)  # type: ignore[attr-defined]
    for node in ast.walk(loop):
        changed: ast.expr | None = node.target if isinstance(node, ast.AugAssign) else None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            changed = node.func.value if node.func.attr.endswith("_") else None  # loss.div_(2)
        if changed is not None and ast.unparse(changed) == read:
            raise CannotRewrite(f"{read} is changed in line {changed.lineno}")
    wrapped = []
    for use in _uses_of(script, site, name, statement):
        if end is not None and use[0].lineno > end:
            continue
        found = _as_numbers(use)
        if found is not None and _in_every_step(use, loop):
            raise CannotRewrite(f"{name} is read in every step, in line {use[0].lineno}")
        if found is not None and not any(isinstance(each, ast.JoinedStr) for each in use[1]):
            wrapped.append((found, use))
    script.replace_call(site, f"{script.expression(script.receiver(site))}.detach()")
    for (template, one), (node, parents) in wrapped:
        inner = parents[-1] if one else node
        script.wrap_call(script.site_of(site, inner), template)  # type: ignore[arg-type]


def _end_of_list(script: Script, site: Site, name: str) -> int | None:
    """The last line in which a name is the list, None if it is to the end of its scope.

    Refuses a list that does not begin empty there, and one that becomes something else but
    by `losses = np.mean(losses)` behind the loop, in the block in which it begins.
    """
    scope = source.function_around(script, site) or script.module(site.file)
    bound = {
        node: ast.unparse(node.value or node)
        for node in ast.walk(scope)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and ast.unparse(node.target if isinstance(node, ast.AnnAssign) else node.targets[0]) == name
    }
    empty = [node for node, value in bound.items() if value == "[]"]
    others = [node for node in bound if node not in empty]
    if not empty or len(others) > 1 or (others and len(empty) > 1):
        raise CannotRewrite(f"{name} is not an empty list of this function's to begin with")
    if not others:
        return None
    around = script.around(site)
    block = next(
        (body for each in ast.walk(scope) if empty[0] in (body := getattr(each, "body", []))), []
    )
    held = [each for each in block if each in around]
    if others[0] not in block or not held or others[0].lineno < (held[0].end_lineno or 0):
        raise CannotRewrite(f"{name} becomes something else, in line {others[0].lineno}")
    return others[0].end_lineno


def _as_numbers(use: Use) -> tuple[str, bool] | None:
    """How a read of a list of tensors is made one of numbers, and whether it is one of one item.

    None where its items are not read: appending, its length. Refuses other methods.
    """
    name, parents = use
    above = parents[-1]
    if isinstance(above, ast.Attribute):
        if above.attr not in ("append", "clear"):
            raise CannotRewrite(f"{name.id}.{above.attr} is used, in line {name.lineno}")
        return None
    if isinstance(above, ast.Call) and called(above) == "len":
        return None
    if isinstance(above, ast.Subscript) and not isinstance(above.ctx, ast.Load):
        raise CannotRewrite(f"{name.id} is changed in line {name.lineno}")
    if isinstance(above, ast.Subscript) and not isinstance(above.slice, ast.Slice):
        return "float({})", True
    return "[float(each) for each in {}]", False

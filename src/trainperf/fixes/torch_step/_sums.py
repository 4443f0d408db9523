"""A sum of losses that stays on the device until it is read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.fixes.torch_step import _loop_source as source
from trainperf.source.statements import Function

if TYPE_CHECKING:
    from trainperf.model import Site
    from trainperf.rewrite import Script

FUNCTIONS = Function | ast.Lambda | ast.ClassDef


def summed_on_device(script: Script, site: Site) -> None:
    """Make `total += loss.item()` at `site` add up tensors, and read the sum where it is used.

    Only for losses: they are float32 or less, so the sum is one of float32. Raises
    `CannotRewrite` where the sum is read in every step all the same.
    """
    call = ast.parse(f"({script.expression(site)})", mode="eval").body
    if not _reads_loss(call):
        raise CannotRewrite("what is read is not a loss")
    statement = script.around(site)[-1]
    if not (
        isinstance(statement, ast.AugAssign)
        and isinstance(statement.op, ast.Add)
        and isinstance(statement.target, ast.Name)
        and _is_product_with(statement.value, ast.dump(call))
    ):
        raise CannotRewrite("the number that is read is not added to a sum")
    total = statement.target.id
    loop = source.innermost_loop(script, site)
    scope = source.function_around(script, site) or script.module(site.file)
    uses = list(_uses(scope, total, ()))
    for name, parents in uses:
        _check_use(name, parents, loop)
    receiver = script.expression(script.receiver(site))
    script.replace_call(site, f"{receiver}.detach().float()")
    for name, parents in uses:
        if not any(isinstance(each, ast.JoinedStr) for each in parents):
            script.wrap_call(source.site_of(script, name, site), "float({})")


def _reads_loss(call: ast.expr) -> bool:
    """Whether it is `loss.item()`, by the name."""
    if not isinstance(call, ast.Call) or call.args or call.keywords:
        return False
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "item":
        return False
    read = call.func.value
    name = read.attr if isinstance(read, ast.Attribute) else getattr(read, "id", "")
    return "loss" in name.lower()


def _is_product_with(value: ast.expr, call: str) -> bool:
    """Whether a value is the call, or that times or by something without calls of `item`."""
    while isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult | ast.Div):
        if isinstance(value.op, ast.Mult) and ast.dump(value.right) == call:
            return True
        value = value.left
    return ast.dump(value) == call


def _uses(
    node: ast.AST, name: str, parents: tuple[ast.AST, ...]
) -> Iterator[tuple[ast.Name, tuple[ast.AST, ...]]]:
    """Every place of a scope that reads a name, with the nodes around it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Name) and child.id == name and isinstance(child.ctx, ast.Load):
            yield child, (*parents, node)
        elif isinstance(child, ast.Global | ast.Nonlocal) and name in child.names:
            raise CannotRewrite(f"{name} is {type(child).__name__.lower()}")
        else:
            yield from _uses(child, name, (*parents, node))


def _check_use(name: ast.Name, parents: tuple[ast.AST, ...], loop: source.Loop) -> None:
    """Refuse a use in every step, and one that may run anywhere."""
    if any(isinstance(each, FUNCTIONS) for each in parents[1:]):
        raise CannotRewrite(f"{name.id} is used in a function of its own")
    strings = [index for index, each in enumerate(parents) if isinstance(each, ast.JoinedStr)]
    if strings and any(isinstance(each, ast.Call) for each in parents[strings[-1] :]):
        raise CannotRewrite(f"{name.id} is used by a call within a text")
    if loop in parents:
        inner = parents[parents.index(loop) :]
        if not any(isinstance(each, ast.If) for each in inner):
            raise CannotRewrite(f"{name.id} is read in every step, in line {name.lineno}")

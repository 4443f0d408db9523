"""The name of a `tf.distribute` strategy where it is to be used."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite

if TYPE_CHECKING:
    from trainperf.model import Site
    from trainperf.rewrite import Script

FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


def strategy_name(script: Script, built: Site, used: Site) -> str:
    """Return the name that has the strategy built by the call at `built` where `used` stands.

    It is the one variable that the strategy is assigned to, in the function of `used` or
    around it, before it and not in a branch that may be passed over. Raises
    `CannotRewrite` where there is no such name.
    """
    source = script.source(built.file)
    if script.source(used.file) is not source:
        raise CannotRewrite("the strategy is built in another file")
    statement, block = source.statement(built)
    name = _assigned(statement, source.call(built))
    around = script.around(used)
    home = _functions(script.around(built))
    inside = _functions(around)
    same_block = any(block is each for _, each in source.around(used))
    if inside[: len(home)] != home or not same_block:
        raise CannotRewrite(f"{name} is not at hand in {source.name}:{used.line}")
    if around[-1].lineno <= statement.lineno:
        raise CannotRewrite(f"{name} is built after {source.name}:{used.line}")
    scope = home[-1].body if home else script.module(built.file).body
    bound = sum(each == name for each in bindings(scope))
    if bound != 1 or any(name in _locals(each) for each in inside[len(home) :]):
        raise CannotRewrite(f"{name} may be another strategy in {source.name}:{used.line}")
    return name


def bindings(block: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the names that statements bind, those within inner functions left out."""
    todo: list[ast.AST] = list(block)
    while todo:
        node = todo.pop()
        if isinstance(node, FUNCTIONS | ast.ClassDef):
            yield node.name
            continue
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        todo += ast.iter_child_nodes(node)


def called(script: Script, site: Site) -> str:
    """Return what the call at `site` calls, without the modules before it: `Sequential`."""
    function = script.source(site.file).call(site).func
    return ast.unparse(function).rpartition(".")[2]


def calls_of(script: Script, near: Site, name: str) -> list[Site]:
    """Return where the file of `near` calls a function by its plain name."""
    source = script.source(near.file)
    return [
        source.site(node, near)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    ]


def inner_function(script: Script, site: Site) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Return the innermost function around `site`, None at the top of the file."""
    found = _functions(script.around(site))
    return found[-1] if found else None


def _assigned(statement: ast.stmt, call: ast.Call) -> str:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    target = targets[0] if len(targets) == 1 else None
    if not isinstance(target, ast.Name) or getattr(statement, "value", None) is not call:
        raise CannotRewrite("the strategy is not assigned to a plain name where it is built")
    return target.id


def _functions(
    around: Sequence[ast.stmt],
) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions among statements, outermost first; the innermost may be its own head."""
    return [node for node in around[:-1] if isinstance(node, FUNCTIONS)]


def _locals(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    arguments = {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}
    return arguments | set(bindings(function.body))

"""Work for a log that is done in every step and looked at in some: it goes to where it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.fixes.common.repeating import RANDOM
from trainperf.fixes.torch_step import _changes as changes
from trainperf.fixes.torch_step import _loop_source as source
from trainperf.source.statements import Function, assigned, called, last_name, names_in, walk

if TYPE_CHECKING:
    from trainperf.model import Site
    from trainperf.rewrite import Script
    from trainperf.source.text import Source


def sink(script: Script, site: Site, anchor: Site) -> None:
    """Move `x = observe(…)` of the loop at `anchor` into the `if` behind it that alone reads `x`.

    `observe` is the function that `site` stands in. Raises `CannotRewrite` where it does more than
    observe, or where more than that `if` needs its result as it was.
    """
    tree = script.module(site.file)
    function = source.function_around(script, site)
    if function is None:
        raise CannotRewrite("no function of its own does the work")
    if any(RANDOM.search(last_name(node)) for node in _named(function)):
        raise CannotRewrite(f"{function.name} may draw random numbers")
    more = changes.does_more(tree, function)
    if more:
        raise CannotRewrite(f"it does more than observe: {more}")
    loop = source.innermost_loop(script, anchor)
    around = source.owner(script, anchor, loop)
    found = [
        (block, index)
        for block in _blocks(loop.body)
        for index, each in enumerate(block)
        if _is_result_of(each, function.name)
    ]
    used = [node for node in walk(loop.body) if _calls_it(node, function.name)]
    if len(found) != 1 or len(used) != 1:
        raise CannotRewrite(f"no statement of the loop keeps what {function.name} gives")
    block, index = found[0]
    statement = block[index]
    assert isinstance(statement, ast.Assign)
    branch = _reader(tree, around, block, index)
    text = _with_comment(script.source(anchor.file), statement)
    first = branch.body[0]
    script.insert_before(script.site_of(anchor, source.first_expression(first)), text)
    script.remove_statement(script.site_of(anchor, statement.value))


def _with_comment(text: Source, statement: ast.stmt) -> str:
    """The text of a statement, with the comment that ends its line."""
    start, end = text.span(statement)
    comment = text.comment_after(end)
    return text.text[start : end if comment is None else comment[1]]


def _reader(
    tree: ast.Module, around: Sequence[ast.stmt], block: Sequence[ast.stmt], index: int
) -> ast.If:
    """The `if` of the same block whose body alone reads what the statement makes."""
    statement = block[index]
    [target] = assigned(statement)
    assert isinstance(target, ast.Name)
    reads = [node for node in walk(around) if isinstance(node, ast.Name) and node.id == target.id]
    for place, each in enumerate(block[index + 1 :], index + 1):
        if not isinstance(each, ast.If):
            continue
        inside = {id(node) for node in walk(each.body)}
        if all(node is target or id(node) in inside for node in reads):
            between = list(block[index + 1 : place])
            made = {
                name for node in walk(between) for one in assigned(node) for name in names_in(one)
            }
            if changes.changes(tree, between) or made & names_in(statement):
                break
            return each
    raise CannotRewrite("more than what is done in some of the steps reads it")


def _blocks(body: Sequence[ast.stmt]) -> Iterator[Sequence[ast.stmt]]:
    """The blocks whose statements every turn of the loop makes."""
    yield body
    for node in body:
        if isinstance(node, ast.With):
            yield from _blocks(node.body)


def _is_result_of(node: ast.stmt, name: str) -> bool:
    plain = isinstance(node, ast.Assign) and len(node.targets) == 1
    return plain and isinstance(node.targets[0], ast.Name) and _calls_it(node.value, name)  # type: ignore[attr-defined]


def _named(function: Function) -> Iterator[ast.expr]:
    return (node for node in walk(function.body) if isinstance(node, ast.Name | ast.Attribute))


def _calls_it(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and called(node) == name

"""Statements moved into a function of their own, and a call put in their place."""

from __future__ import annotations

import ast

from trainperf.errors import CannotRewrite
from trainperf.rewrite.edits import Edit, Insert, Rank, Replace, lines_within_strings
from trainperf.rewrite.imports import block_end
from trainperf.rewrite.layout import replaced
from trainperf.rewrite.statements import first_line
from trainperf.rewrite.wrapping import Around, indentation, siblings
from trainperf.source.text import Function, Source

GAP = 2
"""Empty lines around a function at the top of a module."""


def into_function(
    source: Source, sites: tuple[Around, Around], head: str, result: str, call: str
) -> list[Edit]:
    """Move the siblings that hold the two sites, and all between, below `head`.

    `head` are the lines up to `def …:`. The function stands ahead of the statement of the module
    that holds them, ends with `result`, and `call` stands in their place.
    """
    block, nodes = siblings(source, sites)
    if block.index(nodes[0]) > block.index(nodes[1]):
        raise CannotRewrite("the statements do not stand in the order asked for")
    if block is source.tree.body:
        raise CannotRewrite("the statements are the module's own: others may use what they set")
    start, end = first_line(source, nodes[0]), source.span(nodes[1])[1]
    indent, step = source.text[start : source.start(nodes[0])], indentation(source)
    start = _with_comments(source, start)
    if not source.ends_line(end):
        raise CannotRewrite(f"the statement in {source.name}:{nodes[1].lineno} shares its line")
    text = source.text[start : source.next_line(end)]
    within = lines_within_strings(text)
    body = [
        line if number in within else _moved(line, indent, step)
        for number, line in enumerate(text.rstrip().splitlines(), 1)
    ]
    lines = [*head.splitlines(), *body, *([step + result] if result else [])]
    return [_above(source, sites[0], lines), Replace((start, end), indent + call)]


def expression_into_function(
    source: Source, node: ast.expr, around: Around, head: str, call: str
) -> list[Edit]:
    """Have a function below `head` return an expression, and put `call` in its place.

    The function stands ahead of the statement of the module that holds it.
    """
    text = source.text_of(node) if node.lineno == node.end_lineno else ast.unparse(node)
    lines = [*head.splitlines(), f"{indentation(source)}return {text}"]
    return [_above(source, around, lines), replaced(source, source.span(node), call)]


def _above(source: Source, around: Around, lines: list[str]) -> Insert:
    """Put a function ahead of the statement of the module around a place."""
    function = "".join(line + source.newline for line in lines)
    place = _with_comments(source, first_line(source, around[0][0]))
    above = _empty_above(source, place)
    before, behind = source.newline * max(0, GAP - above), source.newline * GAP
    if not source.text[:place].strip():
        before = ""
    return Insert(place, before + function + behind, Rank.BEFORE_STATEMENT, (place, place))


def split(source: Source, around: Around, result: str, head: str) -> list[Edit]:
    """End a function ahead of a statement of its body, and put what follows under `head`."""
    statement, block = around[-1]
    owner = next((node for node, _ in reversed(around[:-1])), None)
    if not isinstance(owner, Function) or block is not owner.body:
        raise CannotRewrite(f"{source.name}:{statement.lineno} is no statement of a function")
    inner = source.indent(source.start(statement))
    outer = source.indent(source.span(owner)[0])
    if inner is None or outer is None:
        raise CannotRewrite(f"the statement in {source.name}:{statement.lineno} shares its line")
    place, new = _with_comments(source, first_line(source, statement)), source.newline
    gap = new * (1 if outer else GAP)
    text = f"{inner}{result}{new}{gap}{outer}{head}{new}"
    return [Insert(place, text, Rank.BEFORE_STATEMENT, (place, place))]


def _with_comments(source: Source, start: int) -> int:
    """Where the comments start that stand directly above a line."""
    while start > 0:
        above = source.line_start(start - 1)
        if not source.text[above:start].lstrip().startswith("#"):
            break
        start = above
    return start


def _moved(line: str, indent: str, step: str) -> str:
    if not line.strip():
        return ""
    return step + (line.removeprefix(indent) if line.startswith(indent) else line.lstrip())


def _empty_above(source: Source, place: int) -> int:
    count = 0
    while place > 0:
        place = source.line_start(place - 1)
        if source.text[place : source.line_end(place)].strip():
            break
        count += 1
    return count


def below_imports(source: Source, text: str, ready: int) -> list[Edit]:
    """Put a function below the imports at the top of a module, two lines from what surrounds it.

    `ready` is after how many statements all is imported that it needs.
    """
    count, new = max(ready, block_end(source.tree)), source.newline
    lines = text.strip("\n").replace("    ", indentation(source)).split("\n")
    below = source.tree.body[count : count + 1]
    place = source.next_line(source.span(source.tree.body[count - 1])[1]) if count else 0
    gap = source.text[place : first_line(source, below[0])] if below else ""
    behind = new * max(0, GAP - gap.count("\n")) if below else ""
    lead = "" if source.text[:place].endswith("\n") or not place else new
    body = lead + (GAP * new if place else "") + "".join(each + new for each in lines)
    return [
        Insert(place, body, Rank.AFTER_STATEMENT, (place, place)),
        Insert(place, behind, Rank.BEFORE_STATEMENT, (place, place)),  # once, behind the last
    ]

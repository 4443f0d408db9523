"""Statements moved into a function of their own, and a call put in their place."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from trainperf.errors import CannotRewrite
from trainperf.rewrite.edits import Edit, Indent, Insert, Rank, Replace, lines_within_strings
from trainperf.rewrite.imports import block_end
from trainperf.rewrite.layout import replaced
from trainperf.rewrite.statements import first_line
from trainperf.source.text import Function, Place, Source

GAP = 2
"""Empty lines around a function at the top of a module."""

_Around = Sequence[Place]
"""The statements around a site, outermost first, each with its block."""


def into_function(
    source: Source, sites: tuple[_Around, _Around], head: str, result: str, call: str
) -> list[Edit]:
    """Move the siblings that hold the two sites, and all between, below `head`.

    `head` are the lines up to `def …:`. The function stands ahead of the statement of the module
    that holds them, ends with `result`, and `call` stands in their place.
    """
    block, nodes = _siblings(source, sites)
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
    source: Source, node: ast.expr, around: _Around, head: str, call: str
) -> list[Edit]:
    """Have a function below `head` return an expression, and put `call` in its place.

    The function stands ahead of the statement of the module that holds it.
    """
    text = source.text_of(node) if node.lineno == node.end_lineno else ast.unparse(node)
    lines = [*head.splitlines(), f"{indentation(source)}return {text}"]
    return [_above(source, around, lines), replaced(source, source.span(node), call)]


def _above(source: Source, around: _Around, lines: list[str]) -> Insert:
    """Put a function ahead of the statement of the module around a place."""
    function = "".join(line + source.newline for line in lines)
    place = _with_comments(source, first_line(source, around[0][0]))
    above = _empty_above(source, place)
    before, behind = source.newline * max(0, GAP - above), source.newline * GAP
    if not source.text[:place].strip():
        before = ""
    return Insert(place, before + function + behind, Rank.BEFORE_STATEMENT, (place, place))


def split(source: Source, around: _Around, result: str, head: str) -> list[Edit]:
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


def under(source: Source, sites: Sequence[_Around], header: str, before_last: bool) -> list[Edit]:
    """Put the siblings from the first to the last that hold one of `sites` under `header`.

    `before_last` leaves out the one that holds the last of `sites`. Raises
    `CannotRewrite` where no block holds them all, or they share lines with others.
    """
    _check_header(header)
    block, nodes = _siblings(source, sites)
    first, last = block.index(nodes[0]), block.index(nodes[-1])
    if before_last:
        if any(node is nodes[-1] for node in nodes[:-1]):
            raise CannotRewrite(
                f"the statement in {source.name}:{nodes[-1].lineno} holds what is to stay outside"
            )
        last -= 1
    indices = [block.index(node) for node in (nodes[:-1] if before_last else nodes)]
    if not all(first <= index <= last for index in indices):
        raise CannotRewrite("the statements do not stand in the order asked for")
    start, end = first_line(source, block[first]), source.span(block[last])[1]
    if not source.ends_line(end):
        raise CannotRewrite(f"the statement in {source.name}:{block[last].lineno} shares its line")
    indent = source.indent(source.line_start(start) + _width(source, start)) or ""
    lines_within_strings(source.text[start : source.next_line(end)])  # raises
    step = "\t" if "\t" in indent else indentation(source)
    head = f"{indent}{header.strip()}{source.newline}"
    return [Indent((start, source.next_line(end)), head, indent, step)]


def _check_header(header: str) -> None:
    """Refuse a header that is not one line `with …:` or `if …:`."""
    try:
        tree = ast.parse(f"async def _():\n {header.strip()}\n  pass").body
    except (SyntaxError, ValueError) as error:
        raise CannotRewrite(f"not a header: {header!r}") from error
    body = tree[0].body if len(tree) == 1 and isinstance(tree[0], Function) else []
    if len(body) != 1 or not isinstance(body[0], ast.With | ast.AsyncWith | ast.If):
        raise CannotRewrite(f"not a header: {header!r}")


def indentation(source: Source) -> str:
    """Return what one level of a file is indented by; four spaces if nothing is."""
    indents = [source.indent(source.start(node)) for node, _ in source.statements]
    least = min((each for each in indents if each), key=len, default="    ")
    return "\t" if "\t" in least else least


def _width(source: Source, start: int) -> int:
    line = source.text[start : source.line_end(start)]
    return len(line) - len(line.lstrip())


def _siblings(
    source: Source, sites: Sequence[_Around]
) -> tuple[list[ast.stmt], tuple[ast.stmt, ...]]:
    """Return the innermost block that holds all sites, and which of it holds each."""
    for depth in reversed(range(min(len(around) for around in sites))):
        block = sites[0][depth][1]
        if all(around[depth][1] is block for around in sites):
            inner = [node for around in sites for node, _ in around[depth:-1]]
            if any(isinstance(node, Function | ast.ClassDef) for node in inner):
                break
            return block, tuple(around[depth][0] for around in sites)
    lines = " and ".join(f"{source.name}:{around[-1][0].lineno}" for around in sites)
    raise CannotRewrite(f"{lines} are not in one block")

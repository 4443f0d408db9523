"""Statements put under a header, `with ...:`, with all their lines."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from trainperf.errors import CannotRewrite
from trainperf.rewrite.edits import Edit, Indent, lines_within_strings
from trainperf.rewrite.statements import first_line
from trainperf.source.text import Function, Place, Source

Around = Sequence[Place]
"""The statements around a site, outermost first, each with its block."""


def under(source: Source, sites: Sequence[Around], header: str, before_last: bool) -> list[Edit]:
    """Put the siblings from the first to the last that hold one of `sites` under `header`.

    `before_last` leaves out the one that holds the last of `sites`. Raises
    `CannotRewrite` where no block holds them all, or they share lines with others.
    """
    check_header(header)
    block, nodes = siblings(source, sites)
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


def check_header(header: str) -> None:
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


def siblings(
    source: Source, sites: Sequence[Around]
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

"""Statements moved into a function of their own, and a call put in their place."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from trainperf.errors import CannotRewrite
from trainperf.model import Site
from trainperf.rewrite.editing import Editing, check_expression
from trainperf.rewrite.edits import Edit, Indent, Insert, Rank, Replace, lines_within_strings
from trainperf.rewrite.imports import available_after, block_end, names_imported
from trainperf.rewrite.layout import replaced
from trainperf.rewrite.statements import comments_above, first_line, last_line
from trainperf.source.text import Function, Place, Source

GAP = 2
"""Empty lines around a function at the top of a module."""

_Around = Sequence[Place]
"""The statements around a site, outermost first, each with its block."""


def _above(source: Source, around: _Around, lines: list[str]) -> Insert:
    """Put a function ahead of the statement of the module around a place."""
    function = "".join(line + source.newline for line in lines)
    place = comments_above(source, first_line(source, around[0][0]))
    above = _empty_above(source, place)
    before, behind = source.newline * max(0, GAP - above), source.newline * GAP
    if not source.text[:place].strip():
        before = ""
    return Insert(place, before + function + behind, Rank.BEFORE_STATEMENT, (place, place))


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


def under(source: Source, sites: Sequence[_Around], header: str, before_last: bool) -> list[Edit]:
    """Put the siblings from the first to the last that hold one of `sites` under `header`.

    `before_last` leaves out the one that holds the last of `sites`. Raises
    `CannotRewrite` where no block holds them all, or they share lines with others.
    """
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
    start, end = first_line(source, block[first]), last_line(source, block[last])
    indent = source.indent(source.line_start(start) + _width(source, start)) or ""
    lines_within_strings(source.text[start:end])  # raises
    step = "\t" if "\t" in indent else indentation(source)
    head = f"{indent}{header.strip()}{source.newline}"
    return [Indent((start, end), head, indent, step)]


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


class Extracting(Editing):
    """Source files whose statements can go into functions of their own, or under a header."""

    def wrap_statements(
        self, first: Site, last: Site, header: str, until: Site | None = None
    ) -> None:
        """Put the statements around `first` to `last`, and all between, under `with ...:`.

        They are the statements of the innermost block that holds all sites. With `until`,
        those before the statement around it go in as well. Edits of what is wrapped go along, as
        does what is inserted between; what begins within a string stays as it is.
        Raises `CannotRewrite` where the sites are not in one function.
        """
        file = self._file(first.file)
        sites = [first, last] if until is None else [first, last, until]
        if any(self._file(site.file).source is not file.source for site in sites):
            raise CannotRewrite("the statements stand in different files")
        around = [file.source.around(site) for site in sites]
        self._edit(file, under(file.source, around, header, until is not None))

    def move_into_function(
        self, first: Site, last: Site, head: str, result: str, call: str
    ) -> None:
        """Move the statements around `first` to `last` into a function ahead of all around them.

        `head` are its lines up to `def …:`, `result` its last statement ("" for none), and
        `call` the statement that is put in their place.
        """
        names_imported(f"{head}\n    pass")  # refuses what is no statement
        names_imported(call)
        file = self._file(first.file)
        around = (file.source.around(first), file.source.around(last))
        source = file.source
        sites = around
        block, nodes = _siblings(source, sites)
        if block.index(nodes[0]) > block.index(nodes[1]):
            raise CannotRewrite("the statements do not stand in the order asked for")
        if block is source.tree.body:
            raise CannotRewrite("the statements are the module's own: others may use what they set")
        start, end = first_line(source, nodes[0]), source.span(nodes[1])[1]
        indent, step = source.text[start : source.start(nodes[0])], indentation(source)
        start = comments_above(source, start)
        text = source.text[start : last_line(source, nodes[1])]
        within = lines_within_strings(text)
        body = [
            line if number in within else _moved(line, indent, step)
            for number, line in enumerate(text.rstrip().splitlines(), 1)
        ]
        lines = [*head.splitlines(), *body, *([step + result] if result else [])]
        self._edit(file, [_above(source, sites[0], lines), Replace((start, end), indent + call)])

    def expression_into_function(self, site: Site, head: str, call: str) -> None:
        """Have a function ahead of all around it return the expression at `site`.

        `head` are its lines up to `def …:`, and `call` is put in place of the expression.
        """
        names_imported(f"{head}\n    pass")  # refuses what is no statement
        check_expression(call)
        file = self._file(site.file)
        node, around = file.source.expression(site), file.source.around(site)
        source = file.source
        text = source.text_of(node) if node.lineno == node.end_lineno else ast.unparse(node)
        lines = [*head.splitlines(), f"{indentation(source)}return {text}"]
        self._edit(file, [_above(source, around, lines), replaced(source, source.span(node), call)])

    def insert_function(self, file: str, function: str) -> None:
        """Put a function, or a class, below the imports at the top of `file`, once.

        Its modules are asked for with `module_name` before.
        """
        names_imported(function)  # refuses what is no statement
        found = self._file(file)
        ready = available_after(found.source, function, self._added_names(found))
        source = found.source
        text = function
        count, new = max(ready, block_end(source.tree)), source.newline
        lines = text.strip("\n").replace("    ", indentation(source)).split("\n")
        below = source.tree.body[count : count + 1]
        place = source.next_line(source.span(source.tree.body[count - 1])[1]) if count else 0
        gap = source.text[place : first_line(source, below[0])] if below else ""
        behind = new * max(0, GAP - gap.count("\n")) if below else ""
        lead = "" if source.text[:place].endswith("\n") or not place else new
        body = lead + (GAP * new if place else "") + "".join(each + new for each in lines)
        self._edit(
            found,
            [
                Insert(place, body, Rank.AFTER_STATEMENT, (place, place)),
                Insert(
                    place, behind, Rank.BEFORE_STATEMENT, (place, place)
                ),  # once, behind the last
            ],
        )

    def split_function(self, site: Site, result: str, head: str) -> None:
        """End a function ahead of the statement at `site` with `result`; the rest is under `head`.

        `head` is the line `def …:` of a function of its own, as far indented as the first.
        """
        file = self._file(site.file)
        names_imported(f"{head}\n    {result}")  # refuses what is no statement
        source = file.source
        around = file.source.around(site)
        statement, block = around[-1]
        owner = next((node for node, _ in reversed(around[:-1])), None)
        if not isinstance(owner, Function) or block is not owner.body:
            raise CannotRewrite(f"{source.name}:{statement.lineno} is no statement of a function")
        inner = source.indent(source.start(statement))
        outer = source.indent(source.span(owner)[0])
        if inner is None or outer is None:
            raise CannotRewrite(
                f"the statement in {source.name}:{statement.lineno} shares its line"
            )
        place, new = comments_above(source, first_line(source, statement)), source.newline
        gap = new * (1 if outer else GAP)
        text = f"{inner}{result}{new}{gap}{outer}{head}{new}"
        self._edit(file, [Insert(place, text, Rank.BEFORE_STATEMENT, (place, place))])

"""Loops turned into functions where they stand: of each item, or of what the body begins with."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from trainperf.errors import CannotRewrite
from trainperf.model import Site
from trainperf.rewrite.editing import Editing
from trainperf.rewrite.edits import Edit, Indent, Insert, Rank, Replace
from trainperf.rewrite.extraction import indentation
from trainperf.rewrite.statements import below, last_line
from trainperf.source.iterations import of_own_loop
from trainperf.source.text import Source

Plain = ast.For
Part = tuple[int, int]
"""The statements of a body from the first index up to the second."""


def at(source: Source, site: Site) -> Plain:
    """Return the `for` loop that begins on the line of `site`."""
    for node, _ in source.statements:
        if isinstance(node, ast.For) and node.lineno == site.line:
            return node
    raise CannotRewrite(f"no loop begins at {source.name}:{site.line}: did the file change?")


def _head(source: Source, loop: Plain, name: str, item: str) -> Edit:
    """Put the head of a function in place of that of a loop."""
    indent, step = _indents(source, loop)
    head = _head_end(source, loop)
    start, first = source.span(loop)[0], source.start(loop.body[0])
    line = source.newline + (source.indent(first) or indent + step)
    if isinstance(loop.target, ast.Name):
        lines, rest = f"def {name}({loop.target.id}):", ""
    else:
        lines, rest = f"def {name}({item}):", f"{line}{source.text_of(loop.target)} = {item}"
    above = source.line_start(start)
    code_above = source.text[source.line_start(above - 1) : above].strip() if above else ""
    if code_above and not _first(source, loop):
        lines, start = source.newline + indent + lines, above
    if source.text[head:first].strip() or "\n" in source.text[head:first]:
        stop = source.line_end(head)  # a comment stays on the line of the head
        return Replace((start, stop), lines + source.text[head:stop] + rest)
    return Replace((start, first), lines + rest + line)  # for x in items: yield f(x)


def _items(source: Source, loop: Plain) -> str:
    items = source.text_of(loop.iter)
    if isinstance(loop.iter, ast.Tuple):
        return f"({items.removeprefix('(').removesuffix(')')})"
    return items


def _returns(source: Source, body: Sequence[ast.stmt]) -> list[Edit]:
    return [Replace(source.span(one), "return") for one in of_own_loop(body, ast.Continue)]


def _indents(source: Source, loop: Plain) -> tuple[str, str]:
    indent = source.indent(source.span(loop)[0])
    if indent is None:
        raise CannotRewrite(f"the loop in {source.name}:{loop.lineno} begins within a line")
    return indent, "\t" if "\t" in indent else indentation(source)


def _head_end(source: Source, loop: Plain) -> int:
    for token in source.tokens_from(source.span(loop.iter)[1]):
        if token.string == ":":
            return token.end
        if token.string not in (")", ",") and not token.string.startswith("#"):
            break
    raise CannotRewrite(f"the head of the loop in {source.name}:{loop.lineno} was not found")


def _first(source: Source, loop: Plain) -> bool:
    """Whether a loop is the first statement of its block."""
    return any(block[0] is loop for node, block in source.statements if node is loop)


class Moving(Editing):
    """Source files whose loops can be taken apart; edits are kept until asked for."""

    def loop_into_function(self, site: Site, name: str, item: str, call: str) -> None:
        """Turn the `for` loop at `site` into a function of each item, and a call of that.

        `for x in xs: …` becomes `def name(x): …` and `call`, in which `{}` stands for `xs`;
        `item` is what an item is called that the loop takes apart.
        """
        file = self._file(site.file)
        loop = at(file.source, site)
        source = file.source
        indent, end = _indents(source, loop)[0], source.span(loop)[1]
        last_line(source, loop)  # raises
        line = indent + call.replace("{}", _items(source, loop))
        edits = [_head(source, loop, name, item), *_returns(source, loop.body)]
        self._edit(file, [*edits, below(source, end, ["", line])])

    def loop_part_into_function(
        self,
        site: Site,
        taken: int,
        names: tuple[str, str],
        results: Mapping[str, str],
        call: str,
    ) -> None:
        """Turn the first `taken` statements of the `for` loop at `site` into a function of an item.

        The function is called `names[0]`, takes `names[1]` and yields `results`, expressions by
        the names that the loop has for them. The loop goes over `call`, in which `{}` stands for
        its items.
        """
        file = self._file(site.file)
        loop = at(file.source, site)
        source = file.source
        indent = _indents(source, loop)[0]
        inner = source.indent(source.start(loop.body[0]))
        last = source.span(loop.body[taken - 1])[1] if taken else _head_end(source, loop)
        if inner is None or not source.ends_line(last):
            raise CannotRewrite(f"the loop in {source.name}:{loop.lineno} shares its lines")
        stop, new = source.next_line(last), source.newline
        listed, given = ", ".join(results), ", ".join(results.values())
        text = (
            f"{inner}yield {given}{new}{new}"
            f"{indent}for {listed} in {call.replace('{}', _items(source, loop))}:{new}"
        )
        insert = Insert(stop, text, Rank.AFTER_STATEMENT, (stop, stop))
        self._edit(
            file, [_head(source, loop, *names), *_returns(source, loop.body[:taken]), insert]
        )

    def loop_part_into_generator(
        self, site: Site, part: Part, name: str, results: Mapping[str, str], call: str
    ) -> None:
        """Move the `for` loop at `site`, with the statements `part` of it, into a generator.

        The loop then goes over `call`, in which `{}` stands for that of the generator `name`,
        which yields `results`, expressions by the names that the loop has for them.
        """
        file = self._file(site.file)
        loop = at(file.source, site)
        source = file.source
        indent, step = _indents(source, loop)
        start = source.line_start(source.span(loop)[0])
        first, empty = loop.body[0 if part[0] == part[1] else part[0]], part[0] == part[1]
        inner = source.indent(source.span(loop.body[0])[0])
        last = _head_end(source, loop) if empty else source.span(loop.body[part[1] - 1])[1]
        stop = source.next_line(last)
        if inner is None or not source.ends_line(last):
            raise CannotRewrite(f"the loop in {source.name}:{loop.lineno} shares its lines")
        lead = (
            source.line_start(source.start(loop.body[0])),
            source.line_start(source.start(first)),
        )
        new, listed = source.newline, ", ".join(results)
        given = ", ".join(results.values())
        head = f"{indent}def {name}():{new}"
        above = source.text[source.line_start(start - 1) : start] if start else ""
        if above.strip() and not _first(source, loop):
            head = new + head
        text = (
            f"{step}{inner}yield {given}{new}{new}"
            f"{indent}for {listed} in {call.replace('{}', f'{name}()')}:{new}"
            f"{source.text[slice(*lead)]}"
        )
        edits: list[Edit] = [Replace(lead, "")] if lead[0] < lead[1] else []
        self._edit(
            file,
            [
                *edits,
                Indent((start, stop), head, indent, step),
                Insert(stop, text, Rank.AFTER_STATEMENT, (stop, stop)),
            ],
        )

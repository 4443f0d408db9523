"""Loops turned into functions where they stand: of each item, or of what the body begins with."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from trainperf.errors import CannotRewrite
from trainperf.model import Site
from trainperf.rewrite.calls import EditedFile
from trainperf.rewrite.editing import Editing
from trainperf.rewrite.edits import Edit, Indent, Insert, Rank, Replace
from trainperf.rewrite.statements import below, indentation
from trainperf.source.iterations import of_own_loop
from trainperf.source.text import Source

Part = tuple[int, int]
"""The statements of a body from the first index up to the second."""


def _head(source: Source, loop: ast.For, name: str, item: str) -> Edit:
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
    if _follows_code(source, loop, above):
        lines, start = source.newline + indent + lines, above
    if source.text[head:first].strip() or "\n" in source.text[head:first]:
        stop = source.line_end(head)  # a comment stays on the line of the head
        return Replace((start, stop), lines + source.text[head:stop] + rest)
    return Replace((start, first), lines + rest + line)  # for x in items: yield f(x)


def _follows_code(source: Source, loop: ast.For, line: int) -> bool:
    """Whether a statement of the loop's own block stands on the line above it."""
    first = any(block[0] is loop for node, block in source.statements if node is loop)
    return not first and bool(source.text[source.line_start(line - 1) : line].strip())


def _items(source: Source, loop: ast.For) -> str:
    items = source.text_of(loop.iter)
    if isinstance(loop.iter, ast.Tuple):
        return f"({items.removeprefix('(').removesuffix(')')})"
    return items


def _returns(source: Source, body: Sequence[ast.stmt]) -> list[Edit]:
    return [Replace(source.span(node), "return") for node in of_own_loop(body, ast.Continue)]


def _indents(source: Source, loop: ast.For) -> tuple[str, str]:
    indent = source.indent(source.span(loop)[0])
    if indent is None:
        raise CannotRewrite(f"the loop in {source.name}:{loop.lineno} begins within a line")
    return indent, "\t" if "\t" in indent else indentation(source)


def _head_end(source: Source, loop: ast.For) -> int:
    for token in source.tokens_from(source.span(loop.iter)[1]):
        if token.string == ":":
            return token.end
        if token.string not in (")", ",") and not token.string.startswith("#"):
            break
    raise CannotRewrite(f"the head of the loop in {source.name}:{loop.lineno} was not found")


def _behind(source: Source, loop: ast.For, count: int) -> tuple[str, int]:
    """The indentation of a loop's body, and where the line starts below `count` statements of it.

    Raises `CannotRewrite` where they share their lines.
    """
    inner = source.indent(source.start(loop.body[0]))
    last = source.span(loop.body[count - 1])[1] if count else _head_end(source, loop)
    if inner is None or not source.ends_line(last):
        raise CannotRewrite(f"the loop in {source.name}:{loop.lineno} shares its lines")
    return inner, source.next_line(last)


class LoopEdits(Editing):
    """Source files whose loops can be taken apart; edits are kept until asked for."""

    def _loop(self, site: Site) -> tuple[EditedFile, Source, ast.For]:
        """The file of a site, and the `for` loop that begins on its line."""
        file = self._file(site.file)
        for node, _ in file.source.statements:
            if isinstance(node, ast.For) and node.lineno == site.line:
                return file, file.source, node
        where = f"{file.source.name}:{site.line}"
        raise CannotRewrite(f"no loop begins at {where}: did the file change?")

    def loop_into_function(self, site: Site, name: str, item: str, call: str) -> None:
        """Turn the `for` loop at `site` into a function of each item, and a call of that.

        `for x in xs: …` becomes `def name(x): …` and `call`, in which `{}` stands for `xs`;
        `item` is what an item is called that the loop takes apart.
        """
        file, source, loop = self._loop(site)
        indent, end = _indents(source, loop)[0], source.span(loop)[1]
        if not source.ends_line(end):
            raise CannotRewrite(f"the loop in {source.name}:{loop.lineno} shares its last line")
        lines = ["", indent + call.replace("{}", _items(source, loop))]
        edits = [_head(source, loop, name, item), *_returns(source, loop.body)]
        self._edit(file, [*edits, below(source, end, lines, Rank.AFTER_STATEMENT)])

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
        file, source, loop = self._loop(site)
        inner, stop = _behind(source, loop, taken)
        items = call.replace("{}", _items(source, loop))
        text = inner + _yields(source, loop, results, items)
        insert = Insert(stop, text, Rank.AFTER_STATEMENT, (stop, stop))
        returns = _returns(source, loop.body[:taken])
        self._edit(file, [_head(source, loop, *names), *returns, insert])

    def loop_part_into_generator(
        self, site: Site, part: Part, name: str, results: Mapping[str, str], call: str
    ) -> None:
        """Move the `for` loop at `site`, with the statements `part` of it, into a generator.

        The loop then goes over `call`, in which `{}` stands for that of the generator `name`,
        which yields `results`, expressions by the names that the loop has for them.
        """
        file, source, loop = self._loop(site)
        indent, step = _indents(source, loop)
        start = source.line_start(source.span(loop)[0])
        first, empty = loop.body[0 if part[0] == part[1] else part[0]], part[0] == part[1]
        inner, stop = _behind(source, loop, 0 if empty else part[1])
        lead = (
            source.line_start(source.start(loop.body[0])),
            source.line_start(source.start(first)),
        )
        head = f"{indent}def {name}():{source.newline}"
        if _follows_code(source, loop, start):
            head = source.newline + head
        over = _yields(source, loop, results, call.replace("{}", f"{name}()"))
        text = f"{step}{inner}{over}{source.text[slice(*lead)]}"
        edits: list[Edit] = [Replace(lead, "")] if lead[0] < lead[1] else []
        moved = Indent((start, stop), head, indent, step)
        self._edit(file, [*edits, moved, Insert(stop, text, Rank.AFTER_STATEMENT, (stop, stop))])


def _yields(source: Source, loop: ast.For, results: Mapping[str, str], over: str) -> str:
    """The end of a generator, and the head of the loop that goes over what it gives."""
    new, indent = source.newline, _indents(source, loop)[0]
    given, names = ", ".join(results.values()), ", ".join(results)
    return f"yield {given}{new}{new}{indent}for {names} in {over}:{new}"

"""Statements put in and taken out, whole lines at a time."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from trainperf.errors import CannotRewrite
from trainperf.rewrite.edits import Edit, Insert, Rank, Replace
from trainperf.source.text import Function, Place, Source, Span


def first_line(source: Source, node: ast.stmt) -> int:
    """Return where the line starts on which a statement begins, decorators included.

    Raises `CannotRewrite` if anything but white space stands before it there.
    """
    start = source.start(node)
    if getattr(node, "decorator_list", []):
        start = source.line_start(start)
    elif source.indent(start) is None or source.text.startswith("elif", start):
        raise CannotRewrite(f"the statement in {source.name}:{node.lineno} begins within a line")
    return source.line_start(start)


def before(source: Source, node: ast.stmt, statement: str) -> list[Edit]:
    """Put a statement on the lines before another, as far indented; within a line, before `;`."""
    if source.indent(source.start(node)) is None and _is_simple(statement):
        at = source.start(node)
        if not isinstance(node, _COMPOUND):
            return [Insert(at, f"{statement.strip()}; ", Rank.BEFORE_STATEMENT, (at, at))]
    place = first_line(source, node)
    text = "".join(each + source.newline for each in _indented(source, place, statement))
    return [Insert(place, text, Rank.BEFORE_STATEMENT, (place, place))]


_COMPOUND = (
    ast.If, ast.For, ast.While, ast.Try, ast.With, ast.Match, ast.ClassDef,
    ast.FunctionDef, ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith,
)  # fmt: skip


def _is_simple(statement: str) -> bool:
    """Whether a statement may stand on a line with others."""
    tree = ast.parse(statement.strip()).body
    return len(tree) == 1 and not isinstance(tree[0], _COMPOUND) and "\n" not in statement.strip()


def _indented(source: Source, place: int, statement: str) -> list[str]:
    line = source.text[place : source.line_end(place)]
    indent = line[: len(line) - len(line.lstrip())]
    return [f"{indent}{each}" if each.strip() else "" for each in statement.strip("\n").split("\n")]


def behind(source: Source, node: ast.stmt, statement: str) -> list[Edit]:
    """Put a statement on the lines after another and all it holds, as far indented.

    On the same line where that is shared. Raises `CannotRewrite` where it would never be reached.
    """
    end = source.span(node)[1]
    if isinstance(node, ast.Return | ast.Raise | ast.Break | ast.Continue):
        raise CannotRewrite(f"nothing runs after {source.name}:{node.lineno}")
    shares = source.indent(source.start(node)) is None or not source.ends_line(end)
    if shares and _is_simple(statement) and not isinstance(node, _COMPOUND):
        return [Insert(end, f"; {statement.strip()}", Rank.AFTER_STATEMENT, (end, end))]
    place = first_line(source, node)
    if not source.ends_line(end):
        raise CannotRewrite(f"the statement in {source.name}:{node.lineno} shares its line")
    lines = _indented(source, place, statement)
    at = source.next_line(end)
    if at == len(source.text) and not source.text.endswith("\n"):
        text = "".join(source.newline + each for each in lines)
    else:
        text = "".join(each + source.newline for each in lines)
    return [Insert(at, text, Rank.AFTER_STATEMENT, (place, at))]


def first(source: Source, function: Function, statement: str, kept: int) -> list[Edit]:
    """Put a statement into a function, behind its docstring and `kept` more statements.

    Comments that stand directly above the statement after it stay with that.
    """
    start = 1 if ast.get_docstring(function) is not None else 0
    behind = function.body[start + kept : start + kept + 1]
    if not behind:
        raise CannotRewrite(f"nothing follows in {function.name}")
    (insert,) = before(source, behind[0], statement)
    assert isinstance(insert, Insert)
    place = insert.at
    above = function.body[: start + kept]
    limit = source.next_line(source.span(above[-1])[1]) if above else 0
    while place > limit and _is_comment(source.text[source.line_start(place - 1) : place]):
        place = source.line_start(place - 1)
    return [Insert(place, insert.text, insert.rank, (place, place))]


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def after(source: Source, nodes: int, statement: str, rank: Rank, gap: bool) -> list[Edit]:
    """Put a statement after the first `nodes` statements of the module.

    `gap` asks for an empty line in between.
    """
    text = source.newline.join(statement.strip("\n").split("\n"))
    body = source.tree.body
    if not nodes:
        if not body:
            end = len(source.text)
            lead = "" if not end or source.text.endswith("\n") else source.newline
            return [Insert(end, lead + text + source.newline, rank, (end, end))]
        place = first_line(source, body[0])
        return [Insert(place, text + source.newline, rank, (place, place))]
    end = source.line_end(source.span(body[nodes - 1])[1])
    space = source.newline if gap else ""
    if source.next_line(end) == len(source.text) and not source.text.endswith("\n"):
        end = len(source.text)
        return [Insert(end, source.newline + space + text, rank, (end, end))]
    place = source.next_line(end)
    return [Insert(place, space + text + source.newline, rank, (place, place))]


def replacement(source: Source, node: ast.stmt, statement: str) -> list[Edit]:
    """Put a statement in place of another and all it holds, as far indented.

    Raises `CannotRewrite` where it does not fit on a line that is shared.
    """
    start, end = source.span(node)
    shares = source.indent(start) is None or not source.ends_line(end)
    if shares and _is_simple(statement) and not isinstance(node, _COMPOUND):
        return [Replace((start, end), statement.strip())]
    place = first_line(source, node)
    if not source.ends_line(end):
        raise CannotRewrite(f"the statement in {source.name}:{node.lineno} shares its line")
    lines = _indented(source, place, statement)
    return [Replace((start, end), source.newline.join(lines).lstrip())]


def removal(source: Source, place: Place, gone: Sequence[Edit]) -> list[Edit]:
    """Delete a simple statement with its lines; `pass` stays where a block would be empty."""
    node, block = place
    start, end = source.span(node)
    if isinstance(getattr(node, "body", None), list):
        raise CannotRewrite(f"the statement in {source.name}:{node.lineno} holds others")
    if source.indent(start) is None or not source.ends_line(end):
        return [Replace((start, end), "pass")]
    others = [each for each in block if each is not node]
    if block is not source.tree.body and all(
        Replace(_lines(source, each), "") in gone for each in others
    ):
        return [Replace((start, end), "pass")]
    return [Replace(_lines(source, node), "")]


def removals(source: Source, places: Sequence[Place]) -> list[Edit]:
    """Delete statements with all they hold, and with the comments directly above them.

    Of empty lines on both sides of what goes one side stays. Raises `CannotRewrite` where a
    block would be empty.
    """
    gone = [node for node, _ in places]
    for _, block in places:
        if all(each in gone for each in block):
            raise CannotRewrite(f"nothing is left of the block in line {block[0].lineno}")
    spans: list[Span] = []
    for start, end in sorted(_with_comments(source, node) for node in gone):
        if spans and not source.text[spans[-1][1] : start].strip():
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    return [Replace(_with_empty_lines(source, span), "") for span in spans]


def _with_comments(source: Source, node: ast.stmt) -> Span:
    """The lines of a statement, and those of the comments directly above it."""
    start, end = first_line(source, node), source.span(node)[1]
    if not source.ends_line(end):
        raise CannotRewrite(f"the statement in {source.name}:{node.lineno} shares its line")
    indent = source.indent(source.start(node))
    while start:
        above = source.line_start(start - 1)
        before, mark, _ = source.text[above:start].partition("#")
        if not mark or before != indent:
            break
        start = above
    return start, source.next_line(end)


def _with_empty_lines(source: Source, span: Span) -> Span:
    """The same with the empty lines below, where one stands above as well."""
    start, end = span
    if start and not source.text[source.line_start(start - 1) : start].strip():
        while end < len(source.text) and not source.text[end : source.next_line(end)].strip():
            end = source.next_line(end)
    return start, end


def _lines(source: Source, node: ast.stmt) -> Span:
    start, end = source.span(node)
    return source.line_start(start), source.next_line(end)

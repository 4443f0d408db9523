"""Edits inside a call's parentheses, made together so that the commas come out right."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, takewhile

from trainperf.errors import CannotRewrite
from trainperf.rewrite.diff import of_file, shown
from trainperf.rewrite.edits import Edit, Insert, Rank, Replace, render
from trainperf.source.text import Source, Span


@dataclass(frozen=True)
class EditedFile:
    """A source with the edits asked for so far."""

    path: str
    source: Source
    edits: tuple[Edit, ...] = ()
    calls: dict[int, CallChange] = field(default_factory=dict)

    @property
    def data(self) -> bytes:
        """Its bytes as they were."""
        return self.source.data

    @property
    def before(self) -> str:
        """Its text as it was."""
        return self.source.text

    @cached_property
    def text(self) -> str:
        """The text with all edits, made once; raises `CannotRewrite` if it is not Python."""
        edits = list(self.edits)
        for change in self.calls.values():
            edits += call_edits(self.source, change)
        text = render(self.source.text, edits)
        try:
            ast.parse(text)
        except (SyntaxError, ValueError) as error:
            reason = f"the edited {self.source.name} would not parse: {error}"
            raise CannotRewrite(reason) from error
        self.source.encode(text)
        return text

    def content(self) -> bytes:
        """Return the bytes with all edits, in the encoding of the file."""
        return self.source.encode(self.text)

    def diff(self) -> str:
        """Return the change for `git apply`; raises `CannotRewrite` as `of_file` does."""
        return of_file(self.source.name.replace(os.sep, "/"), self.source, self.text)

    def shown(self) -> str:
        """Return the change as it is to be read."""
        return shown(self.source.name.replace(os.sep, "/"), self.source, self.text)


@dataclass(frozen=True)
class CallChange:
    """The keywords to take from and to add to one call, `passed` among its `**keywords`."""

    call: ast.Call
    removed: tuple[str, ...] = ()
    added: Mapping[str, str] = field(default_factory=dict)
    passed: Mapping[str, str] = field(default_factory=dict)

    def without(self, name: str) -> CallChange:
        """Also remove keyword `name`."""
        return replace(self, removed=tuple(dict.fromkeys((*self.removed, name))))

    def plus(self, name: str, value: str) -> CallChange:
        """Also add keyword `name`; raises `CannotRewrite` if it gets another value."""
        return replace(self, added=_with(self.added, name, value))

    def passing(self, name: str, value: str) -> CallChange:
        """Also put `name` into what the call takes as `**keywords`; raises as `plus` does."""
        return replace(self, passed=_with(self.passed, name, value))


def _with(those: Mapping[str, str], name: str, value: str) -> Mapping[str, str]:
    before = those.get(name, value)
    if before != value:
        raise CannotRewrite(f"two edits set {name}: to {before} and to {value}")
    return {**those, name: value}


def call_edits(source: Source, change: CallChange) -> Iterator[Edit]:
    """Turn a change of a call's keywords into edits of the text."""
    call = change.call
    opened, closed = _parentheses(source, call)
    every: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    every.sort(key=lambda node: (node.lineno, node.col_offset))
    items = [_extent(source, node, opened, closed) for node in every]
    drop = [
        index
        for index, node in enumerate(every)
        if isinstance(node, ast.keyword) and node.arg in change.removed
    ]
    added = [f"{name}={value}" for name, value in change.added.items()]
    if change.passed:
        yield from _passing(source, call, change.passed)
    while drop and added:  # a new keyword takes the place of one that goes
        yield Replace(items[drop.pop()], added.pop(0))
    if drop:
        yield from _deletions(source, items, drop)
    if not added:
        return
    whole = (opened - 1, closed + 1)
    if not items:
        yield Insert(opened, ", ".join(added), Rank.AFTER_EXPRESSION, whole)
        return
    only = call.args[0] if len(items) == 1 and call.args else None
    if isinstance(only, ast.GeneratorExp) and source.span(only) == whole:
        yield Insert(items[0][0], "(", Rank.BEFORE_EXPRESSION, whole)
        yield Insert(items[0][1], ")", Rank.AFTER_EXPRESSION, whole)
    yield from _additions(source, items[-1], added, whole)


def _passing(source: Source, call: ast.Call, passed: Mapping[str, str]) -> Iterator[Insert]:
    """Put keywords into the one `**how` of a call: `**{**how, "a": 1}`."""
    (span,) = (source.span(each.value) for each in call.keywords if each.arg is None)
    text = "".join(f', "{name}": {value}' for name, value in passed.items())
    yield Insert(span[0], "{**", Rank.BEFORE_EXPRESSION, span)
    yield Insert(span[1], f"{text}}}", Rank.AFTER_EXPRESSION, span)


def _parentheses(source: Source, call: ast.Call) -> Span:
    """Return the offsets after the opening and before the closing parenthesis."""
    end = source.span(call)[1]
    for token in source.tokens_from(source.span(call.func)[1]):
        if token.string == "(":
            return token.end, end - 1
    raise CannotRewrite("the call's parentheses were not found")


def _extent(source: Source, node: ast.expr | ast.keyword, opened: int, closed: int) -> Span:
    """Return where an argument starts and ends, with the parentheses around it."""
    start, end = source.span(node)
    if (start, end) == (opened - 1, closed + 1):  # f(x for x in y)
        inside = [t for t in source.tokens_from(opened) if t.end <= closed]
        return inside[0].start, inside[-1].end
    for token in source.tokens_before(start):
        if token.string != "(" or token.start < opened:
            break
        start = token.start
    for token in source.tokens_from(end):
        if token.string != ")" or token.start >= closed:
            break
        end = token.end
    return start, end


def _deletions(source: Source, items: list[Span], drop: list[int]) -> Iterator[Replace]:
    """Take arguments out, those side by side at once, with one of the commas around them."""
    for _, run in groupby(sorted(drop), key=lambda index: index - sorted(drop).index(index)):
        first, *rest = run
        last = rest[-1] if rest else first
        lines = [_own_lines(source, item) for item in items[first : last + 1]]
        if all(lines):
            yield from (Replace(each, "") for each in lines if each)
        elif first:
            yield Replace((items[first - 1][1], items[last][1]), "")
        elif last + 1 < len(items):
            yield Replace((items[0][0], items[last + 1][0]), "")
        else:
            yield Replace((items[0][0], _after_comma(source, items[last][1])), "")


def _after_comma(source: Source, end: int) -> int:
    """Return where the comma after an argument ends, or `end` if there is none."""
    for token in source.tokens_from(end):
        if token.string == ",":
            return token.end
        if not token.string.startswith("#"):
            break
    return end


def _own_lines(source: Source, item: Span) -> Span | None:
    """Return the lines of an argument that shares them with nothing but a comment."""
    start, end = item
    if source.indent(start) is None:
        return None
    stop = source.line_end(end)
    rest = takewhile(lambda token: token.start < stop, source.tokens_from(end))
    if any(token.string != "," and not token.string.startswith("#") for token in rest):
        return None
    return source.line_start(start), source.next_line(end)


def _additions(source: Source, last: Span, added: list[str], whole: Span) -> Iterator[Insert]:
    """Put arguments behind the last one: on lines of their own where that is."""
    indent, end = source.indent(last[0]), last[1]
    rank, comma = Rank.AFTER_EXPRESSION, _after_comma(source, end)
    if indent is None:
        yield Insert(end, "".join(f", {each}" for each in added), rank, whole)
        return
    line = source.newline + indent
    comment = source.comment_after(comma)
    place = comment[1] if comment else comma
    if comma > end:
        yield Insert(place, "".join(f"{line}{each}," for each in added), rank, whole)
    elif comment:
        yield Insert(end, ",", rank, whole)
        yield Insert(place, ",".join(f"{line}{each}" for each in added), rank, whole)
    else:
        yield Insert(end, "".join(f",{line}{each}" for each in added), rank, whole)

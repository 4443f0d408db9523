"""Edits inside a call's parentheses, made together so that the commas come out right."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile

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
class Added:
    """A keyword argument to be added."""

    name: str
    value: str

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


@dataclass(frozen=True)
class CallChange:
    """The keywords to take from and to add to one call, `passed` among its `**keywords`.

    Of a dictionary that is written out, the entries to add.
    """

    call: ast.Call | ast.Dict
    removed: tuple[str, ...] = ()
    added: tuple[Added, ...] = ()
    passed: tuple[Added, ...] = ()

    def without(self, name: str) -> CallChange:
        """Also remove keyword `name`."""
        return replace(self, removed=tuple(dict.fromkeys((*self.removed, name))))

    def plus(self, name: str, value: str) -> CallChange:
        """Also add keyword `name`; raises `CannotRewrite` if it gets another value."""
        return replace(self, added=_with(self.added, name, value))

    def passing(self, name: str, value: str) -> CallChange:
        """Also put `name` into what the call takes as `**keywords`; raises as `plus` does."""
        return replace(self, passed=_with(self.passed, name, value))


def _with(those: tuple[Added, ...], name: str, value: str) -> tuple[Added, ...]:
    for each in those:
        if each.name == name and each.value != value:
            raise CannotRewrite(f"two edits set {name}: to {each.value} and to {value}")
    return tuple(dict.fromkeys((*those, Added(name, value))))


Argument = ast.expr | ast.keyword


def arguments(call: ast.Call) -> list[Argument]:
    """Return all arguments of a call in the order of the source."""
    every: list[Argument] = [*call.args, *call.keywords]
    return sorted(every, key=lambda node: (node.lineno, node.col_offset))


def call_edits(source: Source, change: CallChange) -> Iterator[Edit]:
    """Turn a change of a call's keywords, or of a dictionary, into edits of the text."""
    if isinstance(change.call, ast.Dict):
        yield from _entries(source, change.call, change.added)
        return
    opened, closed = _parentheses(source, change.call)
    items = [_extent(source, node, opened, closed) for node in arguments(change.call)]
    drop = [
        index
        for index, node in enumerate(arguments(change.call))
        if isinstance(node, ast.keyword) and node.arg in change.removed
    ]
    added = list(change.added)
    if change.passed:
        yield from _passing(source, change)
    while drop and added:  # a new keyword takes the place of one that goes
        yield Replace(items[drop.pop()], str(added.pop(0)))
    if drop:
        yield from _deletions(source, items, drop)
    if not added:
        return
    whole = (opened - 1, closed + 1)
    if not items:
        text = ", ".join(str(each) for each in added)
        yield Insert(opened, text, Rank.AFTER_EXPRESSION, whole)
        return
    only = change.call.args[0] if len(items) == 1 and change.call.args else None
    if isinstance(only, ast.GeneratorExp) and source.span(only) == whole:
        yield Insert(items[0][0], "(", Rank.BEFORE_EXPRESSION, whole)
        yield Insert(items[0][1], ")", Rank.AFTER_EXPRESSION, whole)
    yield from _additions(source, items[-1], [str(each) for each in added], whole)


def _entries(source: Source, node: ast.Dict, added: Sequence[Added]) -> Iterator[Insert]:
    """Put entries into a dictionary, behind those it has, quoted as they are."""
    whole = source.span(node)
    quote = _quote(source, node)
    texts = [f"{quote}{each.name}{quote}: {each.value}" for each in added]
    if not node.values:
        yield Insert(whole[0] + 1, ", ".join(texts), Rank.AFTER_EXPRESSION, whole)
        return
    first, last = node.keys[-1], node.values[-1]
    end = _extent(source, last, whole[0] + 1, whole[1] - 1)[1]
    start = source.span(first)[0] if first is not None else source.span(last)[0] - 2
    yield from _additions(source, (start, end), texts, whole)


def _quote(source: Source, node: ast.Dict) -> str:
    """Return the quotes of a dictionary's keys, else those that the file has more of."""
    keys = [source.text_of(each)[:1] for each in node.keys if isinstance(each, ast.Constant)]
    used = keys or [each.string[:1] for each in source.tokens if each.string[:1] in "\"'"]
    return "'" if used.count("'") > used.count('"') else '"'


def _passing(source: Source, change: CallChange) -> Iterator[Insert]:
    """Put keywords into the one `**how` of a call: `**{**how, "a": 1}`."""
    assert isinstance(change.call, ast.Call)
    (span,) = (source.span(each.value) for each in change.call.keywords if each.arg is None)
    text = "".join(f', "{each.name}": {each.value}' for each in change.passed)
    yield Insert(span[0], "{**", Rank.BEFORE_EXPRESSION, span)
    yield Insert(span[1], f"{text}}}", Rank.AFTER_EXPRESSION, span)


def _parentheses(source: Source, call: ast.Call) -> Span:
    """Return the offsets after the opening and before the closing parenthesis."""
    end = source.span(call)[1]
    for token in source.tokens_from(source.span(call.func)[1]):
        if token.string == "(":
            return token.end, end - 1
    raise CannotRewrite("the call's parentheses were not found")


def _extent(source: Source, node: Argument, opened: int, closed: int) -> Span:
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
    kept = [index for index in range(len(items)) if index not in drop]
    for run in _runs(drop):
        lines = [_own_lines(source, items[index]) for index in run]
        if all(lines):
            yield from (Replace(each, "") for each in lines if each)
            continue
        before = [index for index in kept if index < run[0]]
        after = [index for index in kept if index > run[-1]]
        if before and before[-1] == run[0] - 1:
            yield Replace((items[before[-1]][1], items[run[-1]][1]), "")
        elif after and after[0] == run[-1] + 1:
            yield Replace((items[run[0]][0], items[after[0]][0]), "")
        else:
            yield Replace((items[run[0]][0], _after_comma(source, items[run[-1]][1])), "")


def _runs(indices: list[int]) -> Iterator[list[int]]:
    run: list[int] = []
    for index in sorted(indices):
        if run and index != run[-1] + 1:
            yield run
            run = []
        run.append(index)
    if run:
        yield run


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
    indent = source.indent(last[0])
    end = last[1]
    comma = _after_comma(source, end)
    if indent is None:
        text = "".join(f", {each}" for each in added)
        yield Insert(end, text, Rank.AFTER_EXPRESSION, whole)
        return
    line = source.newline + indent
    comment = source.comment_after(comma)
    place = comment[1] if comment else comma
    if comma > end:
        text = "".join(f"{line}{each}," for each in added)
        yield Insert(place, text, Rank.AFTER_EXPRESSION, whole)
    elif comment:
        yield Insert(end, ",", Rank.AFTER_EXPRESSION, whole)
        text = ",".join(f"{line}{each}" for each in added)
        yield Insert(place, text, Rank.AFTER_EXPRESSION, whole)
    else:
        text = "".join(f",{line}{each}" for each in added)
        yield Insert(end, text, Rank.AFTER_EXPRESSION, whole)

"""Replacements against the original text, kept apart until they are applied together."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import combinations, product

from trainperf.errors import CannotRewrite
from trainperf.source.text import Span


class Rank(IntEnum):
    """The order of insertions that meet at one place."""

    AFTER_EXPRESSION = 0  # belongs to what ends here
    IMPORT = 2
    AFTER_STATEMENT = 3
    BEFORE_STATEMENT = 4
    DECORATOR = 5
    BEFORE_EXPRESSION = 6  # belongs to what starts here


_ZERO_WIDTH, _REGION = 1, 9  # regions that start where insertions meet


@dataclass(frozen=True)
class Insert:
    """Text put in at an offset; `span` is the expression or line that it belongs to."""

    at: int
    text: str
    rank: Rank
    span: Span


@dataclass(frozen=True)
class Replace:
    """Text put in place of a span; empty to delete it."""

    span: Span
    text: str


@dataclass(frozen=True)
class Indent:
    """Whole lines that go under a header, each with `step` behind `indent`.

    What is inserted for a part of them goes along. Lines that begin within a string
    stay as they are.
    """

    span: Span
    header: str  # with its line ending
    indent: str
    step: str


_Region = Replace | Indent
Edit = Insert | _Region

_OVERLAP = "two edits change the same code"


def render(text: str, edits: Iterable[Edit]) -> str:
    """Return `text` with all edits made, whatever their order.

    Raises `CannotRewrite` where two edits overlap and neither holds the other.
    """
    unique = list(dict.fromkeys(edits))
    inserts = [edit for edit in unique if isinstance(edit, Insert)]
    regions = [edit for edit in unique if not isinstance(edit, Insert)]
    _check(inserts, regions)
    return _Renderer(text, inserts, regions).span((0, len(text)), None)


def _check(inserts: Sequence[Insert], regions: Sequence[_Region]) -> None:
    for one, other in combinations(regions, 2):
        if one.span[0] == one.span[1] or other.span[0] == other.span[1]:
            continue
        inside = _within(one.span, other.span) and isinstance(other, Indent)
        outside = _within(other.span, one.span) and isinstance(one, Indent)
        apart = one.span[1] <= other.span[0] or other.span[1] <= one.span[0]
        if one.span == other.span or not (inside or outside or apart):
            raise CannotRewrite(_OVERLAP)
    for insert, region in product(inserts, regions):
        held = _inside(insert.span, region.span)
        cut = region.span[0] < insert.at < region.span[1]
        if isinstance(region, Replace) and (held or cut):
            raise CannotRewrite(_OVERLAP)


def _within(inner: Span, outer: Span) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


class _Renderer:
    def __init__(self, text: str, inserts: list[Insert], regions: list[_Region]) -> None:
        self.text = text
        self.inserts = list(enumerate(inserts))
        self.regions = regions

    def span(self, span: Span, own: _Region | None) -> str:
        """Return what stands in `span` after the edits; `own` is the region it fills."""
        inner = [one for one in self.regions if own is None or _inside(one.span, span)]
        inner = [one for one in inner if not any(_inside(one.span, other.span) for other in inner)]
        events: list[tuple[int, tuple[int, ...], Insert | _Region]] = [
            (one.span[0], (_REGION if one.span[0] < one.span[1] else _ZERO_WIDTH,), one)
            for one in inner
        ]
        for order, insert in self.inserts:
            mine = own is None or _held(insert, span, own)
            if mine and not any(_held(insert, one.span, one) for one in inner):
                events.append((insert.at, _key(insert, order), insert))
        pieces, position = [], span[0]
        for offset, _, event in sorted(events, key=lambda event: event[:2]):
            pieces.append(self.text[position:offset])
            position = max(position, offset)
            if not isinstance(event, Insert):
                if position <= event.span[0]:  # else a line has gone behind it
                    pieces.append(self._content(event))
                    position = event.span[1]
                continue
            pieces.append(event.text)
        pieces.append(self.text[position : span[1]])
        return "".join(pieces)

    def _content(self, region: _Region) -> str:
        if isinstance(region, Replace):
            return region.text
        text = self.span(region.span, region)
        within = lines_within_strings(text)
        lines = [
            line if number in within or not line.strip() else _deeper(line, region)
            for number, line in enumerate(io.StringIO(text).readlines(), 1)
        ]
        return region.header + "".join(lines)


def _inside(one: Span, other: Span) -> bool:
    """Whether `one` is a part of `other`, and not an empty place at its edge."""
    at_edge = one[0] == one[1] and one[0] in other
    return one != other and _within(one, other) and not at_edge


def _held(insert: Insert, span: Span, region: _Region) -> bool:
    """Whether an insertion belongs to what stands in `span` of a region.

    Lines that go under a header take along what belongs to their own edges as well.
    """
    if span[0] < insert.at < span[1]:
        return True
    if isinstance(region, Replace):
        return False
    if insert.at == span[0]:
        return insert.rank in (Rank.DECORATOR, Rank.BEFORE_EXPRESSION)
    held = insert.span[0] < insert.span[1] and _within(insert.span, span)
    return insert.at == span[1] and held


def _deeper(line: str, under: Indent) -> str:
    kept = under.indent if line.startswith(under.indent) else ""
    return kept + under.step + line[len(kept) :]


def lines_within_strings(text: str) -> set[int]:
    """Return the numbers (from 1) of the lines of some code that begin within a string.

    Raises `CannotRewrite` where the code cannot be read.
    """
    found: set[int] = set()
    opened: list[int] = []
    lines = iter(["if 1:\n", *io.StringIO(text).readlines()])  # whatever its indentation
    try:
        for token in tokenize.generate_tokens(lambda: next(lines, "")):
            kind = tokenize.tok_name[token.type]
            if kind == "STRING":
                found.update(range(token.start[0], token.end[0]))
            elif kind.endswith("STRING_START"):  # of f-strings, from Python 3.12
                opened.append(token.start[0])
            elif kind.endswith("STRING_END"):
                found.update(range(opened.pop(), token.end[0]))
    except (tokenize.TokenError, SyntaxError) as error:
        raise CannotRewrite(f"what is to be indented cannot be read: {error}") from error
    return found  # one less than the tokens' lines, for the line put before


def _key(insert: Insert, order: int) -> tuple[int, ...]:
    """Order insertions at one place so that what they belong to nests: inner ones inside."""
    if insert.rank in (Rank.AFTER_EXPRESSION, Rank.AFTER_STATEMENT):
        return (insert.rank, -insert.span[0], order)
    if insert.rank is Rank.BEFORE_EXPRESSION:
        return (insert.rank, -insert.span[1], -order)
    return (insert.rank, 0, order)

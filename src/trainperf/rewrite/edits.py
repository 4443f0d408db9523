"""Replacements against the original text, kept apart until they are applied together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from trainperf.errors import CannotRewrite
from trainperf.rewrite.source import Span


class Rank(IntEnum):
    """What comes first where several insertions meet at one place."""

    AFTER_EXPRESSION = 0  # belongs to what ends here
    IMPORT = 2
    AFTER_STATEMENT = 3
    BEFORE_STATEMENT = 4
    DECORATOR = 5
    BEFORE_EXPRESSION = 6  # belongs to what starts here


_ZERO_WIDTH, _REGION = 1, 9  # regions that start where insertions meet


@dataclass(frozen=True)
class Insert:
    """Text put in at an offset; `span` is the expression or line that it belongs to.

    `past` is a comment that starts at the offset and that a new line goes behind, so
    that it stays with the code it stands behind.
    """

    at: int
    text: str
    rank: Rank
    span: Span
    past: Span | None = None


@dataclass(frozen=True)
class Replace:
    """Text put in place of a span; empty to delete it."""

    span: Span
    text: str


@dataclass(frozen=True)
class Swap:
    """Two spans that change places, each with the edits inside it."""

    first: Span
    second: Span


Edit = Insert | Replace | Swap

_OVERLAP = "two edits change the same code"


@dataclass(frozen=True)
class _Region:
    span: Span
    text: str | None  # None: what stands at `source`, edited
    source: Span


def render(text: str, edits: Iterable[Edit]) -> str:
    """Return `text` with all edits made, whatever their order.

    Raises `CannotRewrite` where two edits overlap and neither holds the other.
    """
    unique = list(dict.fromkeys(edits))
    inserts = [edit for edit in unique if isinstance(edit, Insert)]
    regions: list[_Region] = []
    for edit in unique:
        if isinstance(edit, Replace):
            regions.append(_Region(edit.span, edit.text, edit.span))
        elif isinstance(edit, Swap):
            regions.append(_Region(edit.first, None, edit.second))
            regions.append(_Region(edit.second, None, edit.first))
    _check(inserts, regions)
    return _Renderer(text, inserts, regions).span((0, len(text)), None)


def _check(inserts: Sequence[Insert], regions: Sequence[_Region]) -> None:
    for index, one in enumerate(regions):
        for other in regions[index + 1 :]:
            if one.span[0] == one.span[1] or other.span[0] == other.span[1]:
                continue
            inside = _within(one.span, other.span) and other.text is None
            outside = _within(other.span, one.span) and one.text is None
            apart = one.span[1] <= other.span[0] or other.span[1] <= one.span[0]
            if one.span == other.span or not (inside or outside or apart):
                raise CannotRewrite(_OVERLAP)
    for insert in inserts:
        for region in regions:
            held = _within(insert.span, region.span) and insert.span != region.span
            cut = region.span[0] < insert.at < region.span[1]
            if region.text is not None and (held or cut):
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
            mine = own is None or span[0] < insert.at < span[1]
            if mine and not any(one.span[0] < insert.at < one.span[1] for one in inner):
                events.append((insert.at, _key(insert, order), insert))
        pieces, position = [], span[0]
        for offset, _, event in sorted(events, key=lambda event: event[:2]):
            pieces.append(self.text[position:offset])
            position = max(position, offset)
            if isinstance(event, _Region):
                if position <= event.span[0]:  # else a line has gone behind it
                    pieces.append(self._content(event))
                    position = event.span[1]
                continue
            if event.past and position < event.past[1]:
                region = next((one for one in inner if one.span == event.past), None)
                pieces.append(self._content(region) if region else self._between(event.past))
                position = event.past[1]
            pieces.append(event.text)
        pieces.append(self.text[position : span[1]])
        return "".join(pieces)

    def _content(self, region: _Region) -> str:
        return self.span(region.source, region) if region.text is None else region.text

    def _between(self, span: Span) -> str:
        return self.text[span[0] : span[1]]


def _inside(one: Span, other: Span) -> bool:
    """Whether `one` is a part of `other`, and not an empty place at its edge."""
    at_edge = one[0] == one[1] and one[0] in other
    return one != other and _within(one, other) and not at_edge


def _key(insert: Insert, order: int) -> tuple[int, ...]:
    """Order insertions at one place so that expressions nest: inner ones stay inside."""
    if insert.rank is Rank.AFTER_EXPRESSION:
        return (insert.rank, -insert.span[0], order)
    if insert.rank is Rank.BEFORE_EXPRESSION:
        return (insert.rank, -insert.span[1], -order)
    return (insert.rank, 0, order)

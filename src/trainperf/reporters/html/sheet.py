"""The sections of a report as a page shows them: their text as HTML, their tables as cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from trainperf.model import words as units
from trainperf.report.document import (
    STRONG,
    Bar,
    Block,
    Code,
    Commands,
    Heading,
    Lines,
    Output,
    Page,
    Prose,
    SourceRow,
    Table,
    plain_text,
)
from trainperf.report.plain import dedented, one_line, plain
from trainperf.reporters.html.markup import LONGEST_CELL, clipped, prose, styled

EMPTY = Markup("")

LONGEST_LINE = 2000
"""Characters of a line of a program's output at most."""

ROOM = 0.09
"""Share of the bar of a step from which a part has room for its number."""

REST = "rest"
"""The tone of what passes beneath a line."""

DEEPEST = 9
"""How far a line moves to the right at most."""


def percent(share: float) -> str:
    """Write a share as an SVG length: "31.25%"; shares outside 0 to 1 stand at the edge."""
    share = min(max(share, 0.0), 1.0) if math.isfinite(share) else 0.0
    return f"{share * 100:.2f}".rstrip("0").rstrip(".") + "%"


@dataclass(frozen=True)
class Piece:
    """A part of the bar of a step, with its row in the legend."""

    name: str
    fill: str
    x: str
    width: str
    middle: str
    seconds: str
    share: str
    label: str = ""


@dataclass(frozen=True)
class Stretch:
    """A line of source or a function, with its place on the step: (x, width, tone) of its parts."""

    share: str
    source: Markup
    where: str
    what: Markup
    depth: int
    pieces: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Shown:
    """One thing that a section shows.

    `kind` is "heading", "title" (of a finding, `label` its number), "prose", "fact" (with a label),
    "item", "table", "code", "command" (`label` says what it does), "bar" (`pieces`), "output" or
    "lines" (`stretches`, and the names and tones of their `kinds`). Of a table, `rows` are the
    cells, `head` their headings, `right` the columns of numbers, and `drawn` the width and the tone
    of the bar behind each row, where it has them.
    """

    kind: str
    text: Markup = EMPTY
    label: str = ""
    head: tuple[str, ...] = ()
    rows: tuple[tuple[Markup, ...], ...] = ()
    right: tuple[int, ...] = ()
    drawn: tuple[tuple[str, str], ...] = ()
    pieces: tuple[Piece, ...] = ()
    stretches: tuple[Stretch, ...] = ()
    kinds: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class View:
    """A heading, "" for none, and what is shown under it."""

    heading: str
    blocks: tuple[Shown, ...]


def view(report: Sequence[Page], *names: str) -> View | None:
    """Some sections of a report under the first heading; None if none is there."""
    found = {section.name: section.blocks for section in report}
    blocks = [block for name in names for block in found.get(name, ())]
    heading = next((block for block in blocks if isinstance(block, Heading)), None)
    made = [one for block in blocks if block is not heading for one in _shown(block)]
    return View(heading.text if heading else "", tuple(made)) if made else None


def _shown(block: Block) -> Sequence[Shown]:
    match block:
        case Heading(text):
            return [Shown("heading", prose(text))]
        case Prose(words, indent, label, width):
            if not width and (label or 0 < indent < 4) and words[:1] and words[0].tone == STRONG:
                return [Shown("title", styled(words), "" if label == "-" else label)]
            kind = "prose" if not label else "item" if label == "-" else "fact"
            return [Shown(kind, styled(words), label)]
        case Code(source):
            return [Shown("code", escape(dedented(source)))]
        case Commands(rows):
            return [
                Shown("command", escape(one_line(command)), f"{what[:1].upper()}{what[1:]}")
                for command, what in rows
            ]
        case Output(text):
            lines = plain(text).expandtabs(8).split("\n")
            kept = "\n".join(line.rstrip()[:LONGEST_LINE] for line in lines)
            return [Shown("output", escape(kept))]
        case Bar(parts):
            return [Shown("bar", pieces=tuple(_pieces(parts)))]
        case Table():
            return [_table(block)]
        case Lines(rows, kinds):
            stretches = tuple(map(_stretch, rows))
            deeper = any(tone == REST for stretch in stretches for *_, tone in stretch.pieces)
            more = (("in what it calls", REST),) if kinds and deeper else ()
            return [Shown("lines", stretches=stretches, kinds=(*kinds, *more))]
    return []


def _pieces(parts: Sequence[tuple[str, float, str]]) -> Sequence[Piece]:
    """The parts of a bar, one beside the other."""
    whole, start, pieces = sum(seconds for _, seconds, _ in parts), 0.0, []
    for name, seconds, tone in parts:
        share = seconds / whole
        place = (percent(start), percent(share), percent(start + share / 2))
        told = units.share(share)
        label = told if share >= ROOM else ""
        pieces.append(Piece(name, tone, *place, units.seconds(seconds), told, label))
        start += share
    return pieces


def _table(table: Table) -> Shown:
    """The cells of a table, without the columns that are empty."""
    kept = [i for i in range(len(table.rows[0])) if any(plain_text(row[i]) for row in table.rows)]
    return Shown(
        "table",
        head=tuple(table.header[i] for i in kept) if table.header else (),
        rows=tuple(tuple(styled(row[i], LONGEST_CELL) for i in kept) for row in table.rows),
        right=tuple(at for at, i in enumerate(kept) if i in table.right),
        drawn=tuple((percent(share), tone) for share, tone in table.lengths),
    )


def _stretch(row: SourceRow) -> Stretch:
    """A row with its bar: what passes on the line itself, then what passes beneath it."""
    pieces, at = [], 0.0
    for share, tone in row.parts:
        pieces.append((percent(at), percent(share), tone))
        at += share
    if row.share - at > 1e-6:
        pieces.append((percent(at), percent(row.share - at), REST))
    return Stretch(
        row.shown,
        escape(clipped(one_line(row.text))) if row.text else prose(row.what),
        row.where,
        prose(row.what) if row.text else EMPTY,
        min(row.depth, DEEPEST),
        tuple(pieces),
    )

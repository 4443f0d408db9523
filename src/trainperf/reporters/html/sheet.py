"""The sections of a report as a page shows them: their text as HTML, their tables as cells.

The bar of a step is left out here: the page draws its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from trainperf.report.document import (
    STRONG,
    Apart,
    Block,
    Code,
    Commands,
    Document,
    Fact,
    Heading,
    Item,
    Lines,
    Output,
    Prose,
    SourceRow,
    Table,
    TrialRows,
    Tried,
    plain_text,
    say,
)
from trainperf.report.plain import one_line, plain
from trainperf.reporters.html.code import coloured
from trainperf.reporters.html.drawing import percent
from trainperf.reporters.html.markup import LONGEST_CELL, clipped, prose, styled

EMPTY = Markup("")

LONGEST_LINE = 2000
"""Characters of a line of a program's output at most."""


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
    "item", "table", "code", "command" (`label` says what it does), "trials", "output" or "lines"
    (`stretches`, and the names and tones of their `kinds`). Of a
    table, `rows` are the cells, `head` their headings, `right` the columns of numbers, and `drawn`
    the width and the tone of the bar behind each row, where it has them.
    """

    kind: str
    text: Markup = EMPTY
    label: str = ""
    head: tuple[str, ...] = ()
    rows: tuple[tuple[Markup, ...], ...] = ()
    right: tuple[int, ...] = ()
    drawn: tuple[tuple[str, str], ...] = ()
    trials: tuple[Tried, ...] = ()
    stretches: tuple[Stretch, ...] = ()
    kinds: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class View:
    """A heading, "" for none, and what is shown under it."""

    heading: str
    blocks: tuple[Shown, ...]


def view(document: Document, *names: str) -> View | None:
    """Some sections of a report under the first heading; None if none is there."""
    found = [one for name in names if (one := document.section(name)) is not None]
    return shown([block for one in found for block in one.blocks])


def shown(blocks: Sequence[Block]) -> View | None:
    """Blocks as a page shows them, under their first heading; None where nothing is to be shown."""
    heading = next((one for one in blocks if isinstance(one, Heading)), None)
    made = [one for block in blocks if block is not heading for one in _shown(block)]
    return View(heading.text if heading else "", tuple(made)) if made else None


def _shown(block: Block) -> list[Shown]:
    match block:
        case Heading(text):
            return [Shown("heading", prose(text))]
        case Prose(words, indent, first):
            label = plain_text(first).strip()
            if (label or 0 < indent < 4) and {span.tone for span in words} == {STRONG}:
                return [Shown("title", styled(words), "" if label == "-" else label)]
            kind = "prose" if not label else "item" if label == "-" else "fact"
            return [Shown(kind, styled(words), label)]
        case Fact(label, words):
            return [Shown("fact", styled(words), label)]
        case Item(words):
            return [Shown("item", styled(words), "-")]
        case Apart(one, other, tone):
            return [Shown("prose", styled(say(f"{one} · {other}" if one else other, tone)))]
        case Code(source, language):
            return [Shown("code", coloured(source, language))]
        case Commands(rows):
            return [
                Shown("command", Markup.escape(one_line(command)), f"{what[:1].upper()}{what[1:]}")
                for command, what in rows
            ]
        case Output(text):
            lines = plain(text).expandtabs(8).split("\n")
            kept = "\n".join(line.rstrip()[:LONGEST_LINE] for line in lines)
            return [Shown("output", Markup.escape(kept))]
        case TrialRows(tried):
            return [Shown("trials", trials=tried)]
        case Table():
            return [_table(block)]
        case Lines(rows, kinds):
            stretches = tuple(map(_stretch, rows))
            deeper = any(tone == REST for stretch in stretches for *_, tone in stretch.pieces)
            more = (("in what it calls", REST),) if kinds and deeper else ()
            return [Shown("lines", stretches=stretches, kinds=(*kinds, *more))]
    return []


def _table(table: Table) -> Shown:
    """The cells of a table, without the columns that are empty."""
    kept = [i for i in range(len(table.rows[0])) if any(plain_text(row[i]) for row in table.rows)]
    return Shown(
        "table",
        head=tuple(table.header[i] for i in kept) if table.header else (),
        rows=tuple(tuple(styled(row[i], LONGEST_CELL) for i in kept) for row in table.rows),
        right=tuple(at for at, i in enumerate(kept) if i in table.right),
        drawn=tuple(
            ("", "") if one is None else (percent(one[0]), one[1]) for one in table.lengths
        ),
    )


REST = "rest"
"""The tone of what passes beneath a line."""

DEEPEST = 9
"""How far a line moves to the right at most."""


def _stretch(row: SourceRow) -> Stretch:
    """A row with its bar: what passes on the line itself, then what passes beneath it."""
    pieces, at = [], row.start
    for share, tone in row.parts:
        pieces.append((percent(at), percent(share), tone))
        at += share
    if (beneath := row.start + row.share - at) > 1e-6:
        pieces.append((percent(at), percent(beneath), REST))
    return Stretch(
        row.shown,
        coloured(clipped(one_line(row.text)), "python") if row.text else prose(row.what),
        row.where,
        prose(row.what) if row.text else EMPTY,
        min(row.depth, DEEPEST),
        tuple(pieces),
    )

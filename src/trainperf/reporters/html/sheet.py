"""The sections of a report as a page shows them: their text as HTML, their tables as cells.

Bars of parts, trials, commands and code are left out here: a page draws its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from trainperf.report.document import (
    Apart,
    Block,
    Document,
    Fact,
    Item,
    Output,
    Prose,
    Table,
    plain_text,
)
from trainperf.report.plain import plain
from trainperf.reporters.html.drawing import percent
from trainperf.reporters.html.markup import LONGEST_CELL, prose, styled

EMPTY = Markup("")

LONGEST_LINE = 2000
"""Characters of a line of a program's output at most."""


@dataclass(frozen=True)
class Shown:
    """One thing that a section shows.

    `kind` is "prose", "fact" (with a label), "item", "table" or "output". Of a table, `rows` are
    the cells, `head` their headings, `right` the columns of numbers, and `drawn` the width and the
    tone of the bar behind each row, where it has them.
    """

    kind: str
    text: Markup = EMPTY
    label: str = ""
    head: tuple[str, ...] = ()
    rows: tuple[tuple[Markup, ...], ...] = ()
    right: tuple[int, ...] = ()
    drawn: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class View:
    """A heading, "" for none, and what is shown under it."""

    heading: str
    blocks: tuple[Shown, ...]

    @property
    def facts(self) -> tuple[Shown, ...]:
        """The blocks that have a label."""
        return tuple(block for block in self.blocks if block.kind == "fact")


def view(document: Document, *names: str) -> View | None:
    """Some sections of a report under the first heading; None if none is there."""
    found = [one for name in names if (one := document.section(name)) is not None]
    blocks = [shown for one in found for block in one.blocks for shown in _shown(block)]
    if not blocks:
        return None
    return View(next((one.heading for one in found if one.heading), ""), tuple(blocks))


def shown(blocks: list[Block]) -> tuple[Shown, ...]:
    """Blocks as a page shows them."""
    return tuple(one for block in blocks for one in _shown(block))


def _shown(block: Block) -> list[Shown]:
    match block:
        case Prose(words, _, first):
            label = plain_text(first).strip()
            kind = "prose" if not label else "item" if label == "-" else "fact"
            return [Shown(kind, styled(words), label)]
        case Fact(label, words):
            return [Shown("fact", styled(words), label)]
        case Item(words):
            return [Shown("item", styled(words), "-")]
        case Apart(one, other):
            return [Shown("prose", prose(f"{one} · {other}" if one else other))]
        case Output(text):
            rows = plain(text).expandtabs(8).split("\n")
            kept = "\n".join(row.rstrip()[:LONGEST_LINE] for row in rows)
            return [Shown("output", Markup.escape(kept))]
        case Table():
            return [_table(block)]
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

"""A paper that keeps what is written on it apart, so that a page says the terminal's words."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup
from rich.console import Console
from rich.text import Text

from trainperf.model import Diagnosis
from trainperf.reporters._html.markup import LONGEST_CELL, styled
from trainperf.reporters._paper import Paper
from trainperf.reporters._plain import plain

EMPTY = Markup("")

ENDLESS = 100_000
"""Columns of the sheet: a page is wrapped by the browser, nothing is shortened here."""

LONGEST_LINE = 2000
"""Characters of a line of a program's output at most."""


@dataclass(frozen=True)
class Block:
    """One thing written on the sheet.

    `kind` is "prose", "fact" (with a label), "item", "table" or "output". Of a table,
    `rows` are the cells, `head` their headings and `right` the columns of numbers.
    """

    kind: str
    text: Markup = EMPTY
    label: str = ""
    head: tuple[str, ...] = ()
    rows: tuple[tuple[Markup, ...], ...] = ()
    right: tuple[int, ...] = ()


@dataclass(frozen=True)
class Section:
    """A heading, "" for none, and what is written under it."""

    heading: str
    blocks: tuple[Block, ...]

    @property
    def facts(self) -> tuple[Block, ...]:
        """The blocks that have a label."""
        return tuple(block for block in self.blocks if block.kind == "fact")


def written(diagnosis: Diagnosis, *writers: Callable[[Diagnosis, Paper], None]) -> Section | None:
    """Let parts of the terminal's report write, under the first heading; None if none does."""
    sheet = Sheet()
    for writer in writers:
        writer(diagnosis, sheet)
    if not sheet.blocks:
        return None
    return Section(sheet.first_heading, tuple(sheet.blocks))


class Sheet(Paper):
    """Collects what the parts of the terminal's report write, as blocks instead of lines.

    Single lines (bars, columns that were laid out) are dropped: a page draws its own.
    """

    def __init__(self) -> None:
        super().__init__(
            Console(
                file=io.StringIO(),
                width=ENDLESS,
                force_terminal=True,
                color_system="standard",
                no_color=False,
            )
        )
        self.width = self.full
        self.ascii = False
        self.colour = True
        self.first_heading = ""
        self.blocks: list[Block] = []

    def line(self, text: Text | str = "", indent: int = 0) -> None:
        """Drop a line: it was laid out for columns of a terminal."""

    def heading(self, text: str) -> None:
        """Keep the first heading."""
        self.first_heading = self.first_heading or text

    def prose(self, text: Text | str, indent: int = 0, *, first: Text | None = None) -> None:
        """Keep a paragraph; with `first` before it, a fact or the item of a list."""
        content = self.say(text) if isinstance(text, str) else text
        label = "" if first is None else first.plain.strip()
        kind = "prose" if not label else "item" if label == "-" else "fact"
        self.blocks.append(Block(kind, styled(content), label))

    def output(self, text: str, indent: int = 2, last: int = 20) -> None:
        """Keep the last lines of a program's output."""
        rows = plain(text).expandtabs(8).strip("\n").split("\n")[-last:]
        kept = "\n".join(row.rstrip()[:LONGEST_LINE] for row in rows)
        self.blocks.append(Block("output", Markup.escape(kept)))

    def table(
        self,
        rows: Sequence[Sequence[Text | str]],
        *,
        header: Sequence[str] = (),
        right: Sequence[int] = (),
        elastic: Sequence[int] = (),
        indent: int = 2,
    ) -> None:
        """Keep a table, without the columns that are empty."""
        cells = [[self._cell(cell) for cell in row] for row in rows]
        kept = [i for i in range(len(cells[0])) if any(row[i].plain for row in cells)]
        self.blocks.append(
            Block(
                "table",
                head=tuple(header[i] for i in kept) if header else (),
                rows=tuple(tuple(styled(row[i], LONGEST_CELL) for i in kept) for row in cells),
                right=tuple(at for at, i in enumerate(kept) if i in right),
            )
        )

"""The blocks of a report on paper: each laid out for the columns that there are."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text

from trainperf.model import words
from trainperf.report import document
from trainperf.report.document import (
    Bar,
    Block,
    Code,
    Commands,
    Gap,
    Heading,
    Lines,
    Output,
    Page,
    Prose,
    SourceRow,
    Table,
    Words,
)
from trainperf.report.plain import one_line
from trainperf.reporters.terminal.paper import Paper

STYLES = {
    document.GOOD: "bold green",
    document.SHORT: "bold yellow",
    document.ALARM: "bold red",
    document.WARN: "yellow",
    document.BAD: "red",
    document.STRONG: "bold",
    document.QUIET: "dim",
    document.MODEL: "green",
    document.HOST: "blue",
    document.EXCHANGE: "red",
    document.RANKS: "magenta",
    document.DATA: "yellow",
    document.UNEXPLAINED: "magenta",
}
"""How a tone looks."""

SIGNS = {
    document.MODEL: "█",
    document.HOST: "▒",
    document.EXCHANGE: "▓",
    document.RANKS: "▞",
    document.DATA: "░",
    document.UNEXPLAINED: "▚",
}
"""The characters of a bar's parts, which differ without colours as well."""

LONGEST = 24
"""Columns of the longest bar behind a table at most."""

SHORTEST = 8
"""Columns of the longest bar with fewer of which there are none."""

WHOLE = 60
"""Columns of a bar that is a whole at most."""


def write(section: Page, paper: Paper) -> None:
    """Write a section."""
    for block in section.blocks:
        _write(block, paper)


def _write(block: Block, paper: Paper) -> None:
    match block:
        case Heading(text):
            paper.heading(text)
        case Gap():
            paper.line()
        case Prose(said, indent, label, width):
            style = "dim" if width else "bold" if label != "-" else ""
            before = paper.raw(label.ljust(width or len(label) + 1), style) if label else None
            paper.prose(text_of(said, paper), indent, first=before)
        case Code(source, language, indent):
            paper.code(source, language, indent)
        case Output(text):
            paper.output(text)
        case Bar():
            _bar(block, paper)
        case Table():
            _table(block, paper)
        case Lines(rows):
            _lines(rows, paper)
        case Commands(rows):
            _commands(rows, paper)


def text_of(said: Words, paper: Paper) -> Text:
    """The words in their styles, safe to print."""
    whole = Text("")
    for span in said:
        if not span.text.strip():
            whole += Text(span.text)
            continue
        style = STYLES.get(span.tone, "")
        whole += paper.raw(span.text, style) if span.exact else paper.say(span.text, style)
    return whole


def _bar(bar: Bar, paper: Paper) -> None:
    width = min(WHOLE, paper.width - bar.indent)
    signed = [(seconds, SIGNS[tone], STYLES[tone]) for _, seconds, tone in bar.parts]
    if width >= 10:
        paper.line(paper.bar(signed, width), bar.indent)
    whole = sum(seconds for _, seconds, _ in bar.parts)
    rows = [
        (
            paper.raw(SIGNS[tone], STYLES[tone]),
            name,
            words.seconds(seconds),
            words.share(seconds / whole),
        )
        for name, seconds, tone in bar.parts
    ]
    paper.table(rows, right=(2, 3), elastic=(1,), indent=bar.indent)


def _table(table: Table, paper: Paper) -> None:
    """Write a table; behind the rows, where there is room, the bars of their lengths."""
    lines = paper.columns(
        [[text_of(cell, paper) for cell in row] for row in table.rows],
        header=table.header,
        right=table.right,
        elastic=table.elastic,
    )
    room = 0
    if table.lengths:
        widest = max(cell_len(line.plain) for line in lines)
        room = min(LONGEST, paper.full - 4 - widest)
    heads = len(lines) - len(table.rows)
    for row, line in enumerate(lines):
        length = table.lengths[row - heads] if table.lengths and row >= heads else None
        if length is not None and room >= SHORTEST:
            share, tone = length
            line = line + Text("  ") + paper.length(share, room, STYLES[tone])
        paper.line(line, 2)


def _lines(rows: tuple[SourceRow, ...], paper: Paper) -> None:
    """Write lines of source, what each is behind it, or beneath it where it has no room."""
    before = ([row.shown for row in rows], [row.where for row in rows])
    room = paper.full - 2 - sum(2 + max(map(cell_len, column)) for column in before)
    table: list[list[Text | str]] = []
    for row in rows:
        indent = Text("  " * row.depth)
        source = indent + (paper.raw(one_line(row.text)) if row.text else paper.say(row.what))
        kind = paper.say(row.what, "dim") if row.text else Text("")
        beside = kind and cell_len(source.plain) + 2 + cell_len(kind.plain) <= room
        table.append([row.shown, paper.raw(row.where), source + Text("  ") + kind])
        if kind and not beside:
            table[-1][-1] = source
            wrapped = kind.wrap(paper.console, max(10, room - len(indent)))
            table += [["", "", indent + piece] for piece in wrapped]
    paper.table(table, right=(0,), elastic=(1, 2))


def _commands(rows: tuple[tuple[str, str], ...], paper: Paper) -> None:
    """Write what each command does beside it, or beneath it where that is too long."""
    beside = [one for one in rows if cell_len(one[0]) + cell_len(one[1]) + 4 <= paper.full]
    column = max((cell_len(command) for command, _ in beside), default=0)
    for command, what in rows:
        shown = paper.say(command, "cyan")
        if (command, what) in beside and column + cell_len(what) + 4 <= paper.full:
            blanks = Text(" " * (column - cell_len(shown.plain) + 2))
            paper.line(shown + blanks + paper.say(what), 2)
        else:
            paper.line(shown, 2)
            paper.line(paper.say(what, "dim"), 6)

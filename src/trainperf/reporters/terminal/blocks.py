"""The blocks of a report on paper: each laid out for the columns that there are."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text

from trainperf.model import words
from trainperf.report import document
from trainperf.report.document import (
    Apart,
    Bar,
    Block,
    Code,
    Commands,
    Fact,
    Gap,
    Heading,
    Item,
    Output,
    Prose,
    Section,
    Table,
    TrialRows,
    Tried,
    Words,
)
from trainperf.reporters.terminal.paper import Paper

STYLES = {
    document.GOOD: "bold green",
    document.SHORT: "bold yellow",
    document.ALARM: "bold red",
    document.WARN: "yellow",
    document.BAD: "red",
    document.STRONG: "bold",
    document.QUIET: "dim",
    document.COMMAND: "cyan",
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

WIDE = 80
"""Columns of a terminal that has room for the long headings of a table."""

LAYOUTS = (
    ("fix", "at most", "measured", "pairs", "steps"),
    ("fix", "at most", "measured", "steps"),
    ("fix", "at most", "measured"),
)
"""The columns, besides the losses at the right: the first that leaves them room is taken."""

RIGHT = ("at most", "pairs", "steps")

ROOM = 18
"""Columns that the losses want; with less, they go beneath the row."""


def write(section: Section, paper: Paper) -> None:
    """Write a section."""
    for block in section.blocks:
        _write(block, paper)


def _write(block: Block, paper: Paper) -> None:
    match block:
        case Heading(text):
            paper.heading(text)
        case Gap():
            paper.line()
        case Prose(said, indent, first):
            paper.prose(text_of(said, paper), indent, first=text_of(first, paper))
        case Fact(label, said, width, indent):
            before = paper.raw(label.ljust(width), "dim")
            paper.prose(text_of(said, paper), indent, first=before)
        case Item(said, indent):
            paper.prose(text_of(said, paper), indent, first=paper.raw("- "))
        case Apart(one, other, tone, indent):
            together = f"{one} · {other}" if one else other
            if len(together) + 4 > paper.width:
                paper.prose(paper.say(one, STYLES[tone]), indent)
                together = other
            paper.prose(paper.say(together, STYLES[tone]), indent)
        case Code(source, language, indent):
            paper.code(source, language, indent)
        case Output(text):
            paper.output(text)
        case Bar():
            _bar(block, paper)
        case Table():
            _table(block, paper)
        case TrialRows(rows):
            _trials(rows, paper)
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
    narrow = dict(table.narrow) if paper.full < WIDE else {}
    lines = paper.columns(
        [[text_of(cell, paper) for cell in row] for row in table.rows],
        header=[narrow.get(one, one) for one in table.header],
        right=table.right,
        elastic=table.elastic,
        indent=table.indent,
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
        paper.line(line, table.indent)


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


def _trials(rows: tuple[Tried, ...], paper: Paper) -> None:
    """Write the trials beneath the headings of their groups."""
    lines, losses_at = _laid_out(rows, paper)
    paper.line(lines[0] + paper.say("losses", "dim") if losses_at else lines[0], 2)
    unmeasured = [line for line, row in zip(lines[1:], rows, strict=True) if not row.measured]
    hang = max((cell_len(line.plain.rstrip()) for line in unmeasured), default=0) + 2
    before = ""
    for row, line in zip(rows, lines[1:], strict=True):
        if row.heading != before:
            paper.line(paper.say(row.heading, STYLES[row.tone]), 2)
            before = row.heading
        if row.measured:
            _measured(row, line, losses_at, paper)
        else:
            _unmeasured(row, line, hang, paper)


def _laid_out(rows: tuple[Tried, ...], paper: Paper) -> tuple[list[Text], bool]:
    """Lay the table out, header first, and say whether there is room for the losses."""
    cells = [_cells(row, paper) for row in rows]
    want = min(ROOM, max(cell_len(row.losses) for row in rows))
    for shown in LAYOUTS if want else ():
        lines = _columns(cells, shown, paper)
        if 2 + cell_len(lines[0].plain) + 2 + want <= paper.width:
            return [line + Text("  ") for line in lines], True
    for shown in LAYOUTS:
        if 2 + cell_len(_columns(cells, shown, paper)[0].plain) <= paper.full:
            return _columns(cells, shown, paper), False
    return _columns(cells, LAYOUTS[-1], paper, elastic=(0,)), False


def _cells(row: Tried, paper: Paper) -> dict[str, Text | str]:
    return {
        "fix": row.name,
        "at most": row.bound,
        "measured": paper.say(row.measured, "bold green" if row.kept else ""),
        "pairs": row.pairs,
        "steps": row.steps,
    }


def _columns(
    cells: list[dict[str, Text | str]],
    shown: tuple[str, ...],
    paper: Paper,
    elastic: tuple[int, ...] = (),
) -> list[Text]:
    return paper.columns(
        [[row[name] for name in shown] for row in cells],
        header=shown,
        right=[i for i, name in enumerate(shown) if name in RIGHT],
        elastic=elastic,
    )


def _unmeasured(row: Tried, line: Text, hang: int, paper: Paper) -> None:
    """Write a row without figures: its reason stands in their place."""
    before = line.copy()
    before.rstrip()
    before.pad_right(hang - cell_len(before.plain))
    paper.prose(row.reason or "no reason is known", indent=2, first=before)


def _measured(row: Tried, line: Text, losses_beside: bool, paper: Paper) -> None:
    """Write a row with its losses, and beneath it what no column holds."""
    told = []
    if losses_beside and row.losses:
        paper.prose(row.losses, indent=2, first=line)
    else:
        paper.line(line, 2)
        told += [f"losses: {row.losses}"] if row.losses else []
    told += [one for one in (row.reason, row.once) if one]
    if told:
        paper.prose(paper.say("; ".join(told), "dim"), indent=4)

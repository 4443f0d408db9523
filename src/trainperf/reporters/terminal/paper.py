"""The paper a terminal report is written on: wrapping, tables, bars, code.

Every line is laid out here and printed as it is, without trailing blanks, so that
text copied from the terminal is the text that was meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from trainperf.report.plain import dedented, one_line, plain, to_ascii

COLUMNS = 100
"""Prose is no wider than this, however wide the terminal: the eye loses longer lines."""

_UNIT = re.compile(r"(?<=\d) (?=(?:%|[mµu]?s|min|h|bytes|[KMGT]iB)(?!\w))|(?<=→) | (?=→)")

_HELD = "\ue000"  # stands for a blank that no line may break at

_CODE_SPAN = re.compile(r"`[^`\n]+`")


class Paper:
    """Collects the lines of a report for a rich console, then prints them.

    Without colour, no style at all is sent.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.lines: list[Text] = []
        self.full = max(console.width, 20)
        self.width = min(self.full, COLUMNS)
        self.colour = console.color_system is not None and not console.no_color
        self.ascii = not (console.encoding or "").lower().replace("-", "").startswith("utf")

    def say(self, text: str, style: str = "") -> Text:
        """Return `text` in one line, safe to print, with its `code` set off."""
        return self._styled(one_line(text), style, spans=True)

    def raw(self, text: str, style: str = "") -> Text:
        """Return `text` safe to print, its blanks kept."""
        return self._styled(plain(text), style, spans=False)

    def line(self, text: Text | str = "", indent: int = 0) -> None:
        """Write one line as it is."""
        content = self.raw(text) if isinstance(text, str) else text
        whole = Text(" " * indent) + content
        whole.rstrip()
        self.lines.append(whole)

    def print(self) -> None:
        """Print what was written."""
        for line in self.lines:
            self.console.print(line, soft_wrap=True, highlight=False, markup=False, emoji=False)

    def heading(self, text: str) -> None:
        """Write a blank line and a heading."""
        self.line()
        self.line(self.say(text, "bold"))

    def prose(self, text: Text | str, indent: int = 0, *, first: Text | None = None) -> None:
        """Write wrapped text; with `first` before it, it hangs behind that.

        A number and its unit stay on one line.
        """
        content = self.say(text) if isinstance(text, str) else text.copy()
        content.plain = _UNIT.sub(_HELD, content.plain)
        before = first if first is not None else Text("")
        hang = cell_len(before.plain)
        room = max(10, self.width - indent - hang)
        for row, wrapped in enumerate(content.wrap(self.console, room)):
            wrapped.rstrip()
            wrapped.plain = wrapped.plain.replace(_HELD, " ")
            self.line((before if row == 0 else Text(" " * hang)) + wrapped, indent)

    def output(self, text: str, indent: int = 2) -> None:
        """Write the last lines of a program's output, broken at the right margin."""
        for row in plain(text).expandtabs(8).split("\n"):
            for piece in _pieces(row.rstrip(), max(10, self.full - indent)):
                self.line(self._styled(piece, "dim", spans=False), indent)

    def code(self, source: str, language: str, indent: int = 4) -> None:
        """Write source with nothing on its lines but itself, so that it can be copied.

        A line that does not fit moves to the left; one that is longer than the
        terminal is left whole, because broken code is not code.
        """
        source = to_ascii(dedented(source)) if self.ascii else dedented(source)
        widest = max(cell_len(line) for line in source.split("\n"))
        indent = max(0, min(indent, self.full - widest))
        for line in self._highlighted(source, language):
            self.line(line, indent)

    def table(
        self,
        rows: Sequence[Sequence[Text | str]],
        *,
        header: Sequence[str] = (),
        right: Sequence[int] = (),
        elastic: Sequence[int] = (),
        indent: int = 2,
    ) -> None:
        """Write columns, as `columns` lays them out."""
        for row in self.columns(rows, header=header, right=right, elastic=elastic, indent=indent):
            self.line(row, indent)

    def columns(
        self,
        rows: Sequence[Sequence[Text | str]],
        *,
        header: Sequence[str] = (),
        right: Sequence[int] = (),
        elastic: Sequence[int] = (),
        indent: int = 2,
    ) -> list[Text]:
        """Return the lines of a table; the `elastic` columns are shortened if it is too wide.

        The `right` ones are set to the right. Empty columns are left out.
        """
        cells = [[self._cell(cell) for cell in row] for row in rows]
        kept = [i for i in range(len(cells[0])) if any(row[i].plain for row in cells)]
        heads = [[self.say(text, "dim") for text in header]] if header else []
        lines = [[row[i] for i in kept] for row in heads + cells]
        widths = [max(cell_len(row[i].plain) for row in lines) for i in range(len(kept))]
        shrinking = [kept.index(i) for i in elastic if i in kept]
        _shrink(widths, shrinking, self.full - indent - 2 * (len(kept) - 1))
        return [
            Text("  ").join(
                self._fit(cell, width, right=kept[i] in right)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in lines
        ]

    def length(self, share: float, width: int, style: str) -> Text:
        """Return a bar of that share of `width` columns, one column at least."""
        return self.raw("█" * max(1, round(min(share, 1.0) * width)), style)

    def bar(self, parts: Sequence[tuple[float, str, str]], width: int) -> Text:
        """Return a bar of `width` columns: (share of the whole, sign, style) each.

        A part that is there at all gets one column at least.
        """
        whole = sum(part for part, _, _ in parts)
        columns = [max(1, round(part / whole * width)) if part > 0 else 0 for part, _, _ in parts]
        columns[columns.index(max(columns))] += width - sum(columns)
        pieces = zip(parts, columns, strict=True)
        return Text("").join(self.raw(sign * many, style) for (_, sign, style), many in pieces)

    def _styled(self, text: str, style: str, *, spans: bool) -> Text:
        written = Text()  # the style as a span: what is added behind must not inherit it
        written.append(to_ascii(text) if self.ascii else text, style if self.colour else "")
        if spans and self.colour:
            written.highlight_regex(_CODE_SPAN, "cyan")
        return written

    def _cell(self, cell: Text | str) -> Text:
        return self.say(cell) if isinstance(cell, str) else cell

    def _fit(self, cell: Text, width: int, *, right: bool) -> Text:
        missing = width - cell_len(cell.plain)
        if missing < 0:
            mark = "..." if self.ascii else "…"
            return Text(shortened(cell.plain, width, mark))
        blanks = Text(" " * missing)
        return blanks + cell if right else cell + blanks

    def _highlighted(self, source: str, language: str) -> Iterator[Text]:
        if not self.colour:
            yield from (Text(line) for line in source.split("\n"))
            return
        from rich.syntax import Syntax  # loads pygments: 40 ms, only where it shows

        syntax = Syntax(source, language, theme="ansi_dark", background_color="default")
        yield from syntax.highlight(source).split("\n")


def shortened(text: str, width: int, mark: str = "…") -> str:
    """Return `text` in at most `width` columns; of a path, the end is what stays."""
    if cell_len(text) <= width:
        return text
    room = max(0, width - len(mark))
    if "/" not in text or " " in text:
        return set_cell_size(text, room) + mark
    tail = text[-room:] if room else ""  # characters of no width aside
    while cell_len(tail) > room:
        tail = tail[1:]
    return mark + tail


def _shrink(widths: list[int], columns: Sequence[int], room: int) -> None:
    while columns and sum(widths) > room:
        widest = max(columns, key=lambda column: widths[column])
        if widths[widest] <= 6:
            return
        widths[widest] -= 1


def _pieces(line: str, width: int) -> Iterator[str]:
    while cell_len(line) > width:
        cut = width
        while cell_len(line[:cut]) > width:
            cut -= 1
        yield line[:cut]
        line = line[cut:]
    yield line

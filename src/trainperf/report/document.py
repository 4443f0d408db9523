"""A report as a value: sections of facts, tables, bars and prose, said once for every reporter.

Text is kept as it came; a reporter makes it safe for where it prints it. A tone says what a
text means, not how it looks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from trainperf.model import Diagnosis
from trainperf.report.plain import plain

GOOD, SHORT, ALARM, WARN, BAD = "good", "short", "alarm", "warn", "bad"
STRONG, QUIET = "strong", "quiet"
"""Tones: measured and good; below a line; what must be seen; worth a look; bad; stands out;
stands back."""

MODEL, HOST, EXCHANGE, RANKS = "model", "host", "exchange", "ranks"
DATA, UNEXPLAINED = "data", "unexplained"
"""Tones of the parts of a step: who takes the time."""


@dataclass(frozen=True)
class Span:
    """A piece of text in one tone; `exact` keeps its blanks and sets no `code` off."""

    text: str
    tone: str = ""
    exact: bool = False


Part = tuple[str, float, str]
"""Name, seconds and tone of a part of a bar."""

Words = tuple[Span, ...]
"""A line or a paragraph: pieces of text in their tones."""


def say(text: str, tone: str = "") -> Words:
    """Words whose `code` is set off, in one line whatever blanks they hold."""
    return (Span(text, tone),)


def exactly(text: str, tone: str = "") -> Words:
    """Words as they are, blanks and backticks kept."""
    return (Span(text, tone, exact=True),)


def plain_text(words: Words) -> str:
    """The words without their tones."""
    return "".join(span.text for span in words)


@dataclass(frozen=True)
class Heading:
    """The head of a section, or of a part of one."""

    text: str


@dataclass(frozen=True)
class Gap:
    """A blank line, where lines are what there is."""


@dataclass(frozen=True)
class Prose:
    """A paragraph, `indent` columns in, that hangs behind its label.

    That is "-" of an item, "1." of a finding, or names a fact, in so many columns (`width`).
    """

    words: Words
    indent: int = 0
    label: str = ""
    width: int = 0


@dataclass(frozen=True)
class Code:
    """Source to be copied."""

    source: str
    language: str
    indent: int = 4


@dataclass(frozen=True)
class Output:
    """The last lines of a program's output."""

    text: str


@dataclass(frozen=True)
class Bar:
    """A whole and its parts, with what each takes: (name, seconds, tone)."""

    parts: tuple[Part, ...]
    indent: int


@dataclass(frozen=True)
class Table:
    """Columns: `right` ones are set to the right, `elastic` ones may be shortened.

    `lengths` are bars behind the rows, (share of the longest, tone) each.
    """

    rows: tuple[tuple[Words, ...], ...]
    header: tuple[str, ...] = ()
    right: tuple[int, ...] = ()
    elastic: tuple[int, ...] = ()
    lengths: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True)
class SourceRow:
    """A line of source, a function or what is left, with its share of a step.

    `shown` says the share, `text` is the source, `what` how the time passes. `parts` are those of
    it that pass on the line itself, (share of the step, tone) each; `depth` is how many rows it
    stands beneath.
    """

    shown: str
    share: float
    where: str = ""
    text: str = ""
    what: str = ""
    parts: tuple[tuple[float, str], ...] = ()
    depth: int = 0


@dataclass(frozen=True)
class Lines:
    """A step by lines; `kinds` are the names and tones of their parts."""

    rows: tuple[SourceRow, ...]
    kinds: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Commands:
    """Commands that lead on, each with what it does."""

    rows: tuple[tuple[str, str], ...]


Block = Heading | Gap | Prose | Code | Output | Bar | Table | Lines | Commands
"""The parts of a section."""


LABEL = 16
"""Columns of the labels at the left of facts."""


@dataclass
class Page:
    """The blocks that a section writes, for the `full` report or the short one.

    `saved` is the name of the run and `patch_file` that of its patch, for commands; "" for none.
    """

    name: str = ""
    full: bool = field(default=True, compare=False)
    saved: str = ""
    patch_file: str = ""
    blocks: list[Block] = field(default_factory=list)

    def add(self, block: Block) -> None:
        """Write a block."""
        self.blocks.append(block)

    def heading(self, text: str) -> None:
        """Begin a section, or a part of one."""
        self.add(Heading(text))

    def gap(self) -> None:
        """Leave a blank line."""
        self.add(Gap())

    def prose(self, text: Words | str, indent: int = 0, *, label: str = "") -> None:
        """Write a paragraph."""
        self.add(Prose(worded(text), indent, label))

    def facts(self, facts: Iterable[tuple[str, str]]) -> None:
        """Write what is said under labels; nothing under those of which nothing is known."""
        for label, text in facts:
            if text:
                self.add(Prose(say(text), 2, label, LABEL))

    def item(self, text: str) -> None:
        """Write an item of a list."""
        self.prose(text, 2, label="-")

    def items(self, heading: str, items: Sequence[str]) -> None:
        """Write a list under a heading; nothing without an item."""
        if items:
            self.heading(heading)
        for item in items:
            self.item(item)

    def paragraphs(self, text: str, indent: int = 0) -> None:
        """Write text in paragraphs, which blank lines set apart."""
        parts = [part for part in re.split(r"\n\s*\n", plain(text).strip()) if part]
        for row, paragraph in enumerate(parts):
            if row:
                self.gap()
            self.prose(paragraph, indent)

    def table(
        self,
        rows: Sequence[Sequence[Words | str]],
        *,
        header: Sequence[str] = (),
        right: Sequence[int] = (),
        elastic: Sequence[int] = (),
        lengths: Sequence[tuple[float, str]] = (),
    ) -> None:
        """Write a table; see `Table`."""
        cells = tuple(tuple(map(worded, row)) for row in rows)
        self.add(Table(cells, tuple(header), tuple(right), tuple(elastic), tuple(lengths)))


def given(write: Callable[[float], str], value: float | None) -> str:
    """The value as `write` has it; "" for what is not known."""
    return "" if value is None else write(value)


def worded(text: Words | str) -> Words:
    """The words of a text that has no tone."""
    return say(text) if isinstance(text, str) else text


@dataclass(frozen=True)
class Section:
    """A part of the report on one matter: what writes it, and where it stands.

    Sections come in the order of their `place`; from `STEP` to `CHANGES` they tell where the time
    goes. `short` says whether it stands in the short report: of any run, or of this one. `side` is
    the part of the page in a browser that holds it, "" where that places it itself.
    """

    name: str
    place: int
    write: Callable[[Diagnosis, Page], None]
    short: bool | Callable[[Diagnosis], bool] = False
    side: str = "costs"


STEP, CHANGES, END = 100, 300, 400
"""Places from which sections tell where the time goes, what to change, and how to go on."""

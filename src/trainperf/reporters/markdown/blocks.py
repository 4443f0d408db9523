"""The blocks of a report as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from trainperf.model import words
from trainperf.report import document
from trainperf.report.document import (
    Apart,
    Bar,
    Block,
    Code,
    Commands,
    Fact,
    Heading,
    Item,
    Lines,
    Output,
    Prose,
    Table,
    Words,
    Written,
    plain_text,
)
from trainperf.report.plain import dedented
from trainperf.reporters.markdown.marked import code, fenced, inline, table, within


def blocks(sections: Sequence[Written]) -> str:
    """Return sections as Markdown; trials, which are told elsewhere, are left out."""
    found = [(block, _block(block)) for one in sections for block in one.blocks]
    texts = [(block, text) for block, text in found if text]
    whole = ""
    for (before, _), (block, text) in zip([(None, ""), *texts], texts, strict=False):
        apart = "\n" if _listed(before) and _listed(block) else "\n\n"
        whole += (apart if whole else "") + text
    return whole


def _listed(block: Block | None) -> bool:
    return isinstance(block, (Fact, Item))


def _block(block: Block) -> str:
    match block:
        case Heading(text):
            return f"### {inline(text)}"
        case Prose(said, _, first):
            text = inline(plain_text((*first, *said)).strip())
            return f"**{text}**" if {span.tone for span in said} == {document.STRONG} else text
        case Apart(one, other):
            return inline(f"{one} · {other}" if one else other)
        case Fact(label, said):
            return f"- {inline(label)}: {within(plain_text(said))}"
        case Item(said):
            return f"- {inline(plain_text(said))}"
        case Code(source, language):
            return fenced(dedented(source), language)
        case Output(text):
            return fenced(text, "text")
        case Bar(parts):
            return _bar(parts)
        case Commands(rows):
            return "\n".join(f"- {code(command)}: {inline(what)}" for command, what in rows)
        case Table():
            return _table(block)
        case Lines(rows):
            cells = [(row.shown, code(row.where), code(row.text), within(row.what)) for row in rows]
            return table(("Share", "Line", "Source", "What passes there"), cells, right=(0,))
    return ""


def _bar(parts: tuple[document.Part, ...]) -> str:
    whole = sum(seconds for _, seconds, _ in parts)
    rows = [
        (inline(name), words.seconds(seconds), words.share(seconds / whole))
        for name, seconds, _ in parts
    ]
    return table(("Part", "Time", "Share"), rows, right=(1, 2))


def _table(found: Table) -> str:
    kept = [i for i in range(len(found.rows[0])) if any(plain_text(row[i]) for row in found.rows)]
    header = [found.header[i].capitalize() if found.header else "" for i in kept]
    right = [at for at, i in enumerate(kept) if i in found.right]
    return table(header, [[_cell(row[i]) for i in kept] for row in found.rows], right)


def _cell(said: Words) -> str:
    return within(plain_text(said))

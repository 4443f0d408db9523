"""The report as Markdown: for the summary of a job, or a comment on a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from trainperf.model import Diagnosis
from trainperf.model import words as units
from trainperf.report import document
from trainperf.report.document import (
    Bar,
    Block,
    Code,
    Commands,
    Heading,
    Lines,
    Output,
    Page,
    Prose,
    Table,
    plain_text,
)
from trainperf.report.level import ASKED_FOR_NOTHING, Judgement
from trainperf.report.plain import dedented
from trainperf.report.sections import closing, step
from trainperf.report.whole import report
from trainperf.reporters.markdown.marked import (
    code,
    escaped,
    fenced,
    folded,
    inline,
    table,
    within,
)

COMMENT_LIMIT = 65_536
"""The longest comment that GitHub takes, in characters; here bytes, which are never fewer."""

SUMMARY_LIMIT = 1024 * 1024
"""The longest summary of a step that GitHub shows, in bytes."""


def render(
    diagnosis: Diagnosis,
    *,
    judgement: Judgement = ASKED_FOR_NOTHING,
    root: str = "",
    limit: int = COMMENT_LIMIT,
) -> str:
    """Return the report in at most `limit` bytes; places are relative to `root`, or the run's.

    What a short report says stands open, the rest is folded. Where it would be longer, the patch is
    left out, then the rest, and that is said.
    """
    diagnosis = replace(diagnosis, cwd=root or diagnosis.cwd)
    open_ = report(diagnosis, full=False)
    whole = report(diagnosis, full=True)
    more = [one for one in whole if one not in open_ and one.name != "next"]
    title = [f"## trainperf: {code(diagnosis.script)}", *_judged(judgement, diagnosis)]
    head = [*title, blocks(open_)]
    details = [folded("The whole report", blocks(more))] if more else []
    patch, end = _patch(diagnosis), _end(diagnosis)
    left_out = "_Left out to keep this short: {}. `trainperf show` prints the whole report._"
    for texts in (
        [*head, *details, *patch, end],
        [*head, *details, left_out.format("the patch"), end],
        [*head, left_out.format("the details and the patch"), end],
    ):
        if len(text := _joined(texts)) <= limit:
            return text.decode()
    verdict = f"**{inline(diagnosis.verdict.text)}**"
    first = _joined([*title, verdict, left_out.format("all but the verdict"), end])
    return first[: max(0, limit)].decode("utf-8", "ignore")


def _joined(texts: list[str]) -> bytes:
    return ("\n\n".join(text for text in texts if text) + "\n").encode("utf-8", "replace")


def _judged(judgement: Judgement, diagnosis: Diagnosis) -> Iterator[str]:
    """What a check says, and which findings make it fail."""
    yield inline(judgement.answer)
    failing = (
        f"{finding.title} ({finding.id})"
        for finding in diagnosis.findings
        if judgement.level(finding, diagnosis) == "error"
    )
    problems = [*judgement.problems, *failing]
    if problems:
        yield "**Why the check fails**"
        yield "\n".join(f"- {inline(problem)}" for problem in problems)


def blocks(sections: Sequence[Page]) -> str:
    """Return sections as Markdown."""
    whole, before = "", False
    for block in (block for section in sections for block in section.blocks):
        if text := _block(block):
            listed = isinstance(block, Prose) and (block.label == "-" or block.width > 0)
            apart = "\n" if before and listed else "\n\n"
            whole, before = f"{whole}{apart if whole else ''}{text}", listed
    return whole


def _block(block: Block) -> str:
    match block:
        case Heading(text):
            return f"### {inline(text)}"
        case Prose(said, _, label, width):
            if width:
                return f"- {inline(label)}: {within(plain_text(said))}"
            if label == "-":
                return f"- {inline(plain_text(said))}"
            text = inline(f"{label} {plain_text(said)}".strip())
            return f"**{text}**" if {span.tone for span in said} == {document.STRONG} else text
        case Code(source, language):
            return fenced(dedented(source), language)
        case Output(text):
            return fenced(text, "text")
        case Commands(rows):
            return "\n".join(f"- {code(command)}: {inline(what)}" for command, what in rows)
        case Bar() | Table() | Lines():
            return _table(block)
    return ""


def _table(block: Bar | Table | Lines) -> str:
    header: tuple[str, ...]
    right: tuple[int, ...]
    cells: list[tuple[str, ...]]
    match block:
        case Bar(parts):
            header, right = ("Part", "Time", "Share"), (1, 2)
            whole = sum(seconds for _, seconds, _ in parts)
            cells = [
                (inline(name), units.seconds(seconds), units.share(seconds / whole))
                for name, seconds, _ in parts
            ]
        case Lines(rows):
            header, right = ("Share", "Line", "Source", "What passes there"), (0,)
            cells = [(row.shown, code(row.where), code(row.text), within(row.what)) for row in rows]
        case Table(rows):
            kept = [i for i in range(len(rows[0])) if any(plain_text(row[i]) for row in rows)]
            header = tuple(block.header[i].capitalize() if block.header else "" for i in kept)
            right = tuple(at for at, i in enumerate(kept) if i in block.right)
            cells = [tuple(within(plain_text(row[i])) for i in kept) for row in rows]
    return table(header, cells, right)


def _patch(diagnosis: Diagnosis) -> list[str]:
    patch = diagnosis.patch
    if patch is None or not patch.diff:
        return []
    edits = units.count(closing.edits_in(patch.shown), "edit")
    return [folded(f"The patch ({edits})", fenced(patch.shown, "diff"))]


def _end(diagnosis: Diagnosis) -> str:
    framework = step.framework_line(diagnosis.evidence.framework)
    parts = (framework, f"trainperf {diagnosis.trainperf_version}", diagnosis.created)
    return f"<sub>{escaped(', '.join(filter(None, parts)))}</sub>"

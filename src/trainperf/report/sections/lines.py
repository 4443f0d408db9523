"""A step by lines of the user's own files, as a tree: in short of the heaviest ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from trainperf.model import Diagnosis, Line, LineKind, Site, StepLines, known
from trainperf.model import words as units
from trainperf.model.lines import MANY, OF_FRAMEWORKS
from trainperf.report.document import (
    DATA,
    EXCHANGE,
    HOST,
    MODEL,
    RANKS,
    STEP,
    Lines,
    Page,
    Section,
    SourceRow,
)
from trainperf.report.plain import place

HEADING = "By line, each with all that runs beneath it"

KINDS: dict[LineKind, tuple[str, str]] = {
    "python": ("Python", HOST),
    "library": ("library code", "library"),
    "operators": ("operators", MODEL),
    "backward": ("backward", "backward"),
    "graph": ("compiled graph", "graph"),
    "input": ("input", DATA),
    "compiling": ("tracing and compiling", EXCHANGE),
    "waiting": ("waiting for the device", RANKS),
}
"""Each kind in words, and its tone."""

IN_SHORT = 0.10
"""Share of a step from which a line or a function has its place in a short report."""

WORTH_A_NODE = 0.02
"""The same in a whole one."""

UNSURE = 0.05
"""Half of the interval of a share from which it is told."""

SECOND = 0.15
"""Share of a line from which the second of the ways in which its time passes is told."""


def tree(diagnosis: Diagnosis, page: Page) -> None:
    """Write the lines that a step passes on beneath those that call them, in short the heaviest."""
    lines = known(diagnosis.evidence.lines_)
    if lines is None:
        return
    least = (WORTH_A_NODE if page.full else IN_SHORT) * lines.seconds
    heavy = [line for line in lines.lines if line.weight >= least]
    if not page.full and len(heavy) == 1 and _runs_the_loop(heavy[0], diagnosis):
        return  # there is none to name
    root = _Branch(Site("", 0))
    for line in lines.lines:
        branch = root
        for site in (*line.callers, line.where):
            branch = branch.beneath.setdefault(site, _Branch(site))
            branch.seconds += line.seconds
            branch.heaviest = max(branch.heaviest, line.weight)
        branch.line = line
    rows = list(_rows(root, least, lines, diagnosis))
    named = len(rows) == 1 and rows[0].text and rows[0].where in diagnosis.verdict.text
    if not rows or (named and not page.full):
        return
    if lines.elsewhere_s >= least:
        shown, share = _share(lines.elsewhere_s, lines)
        rows.append(SourceRow(shown, share, what="on no line of yours"))
    page.heading(HEADING)
    tones = {tone for row in rows for _, tone in row.parts}
    page.add(Lines(tuple(rows), tuple(pair for pair in KINDS.values() if pair[1] in tones)))


def _runs_the_loop(line: Line, diagnosis: Diagnosis) -> bool:
    """Whether a line is the call in which a framework makes the steps."""
    loop = diagnosis.loop
    where = None if loop is None or loop.kind not in ("fit", "call") else loop.where
    made = line.call and line.kind in ("input", "operators", "library", "graph")
    if where is None or not made or line.where.file != where.file:
        return False
    return where.line <= line.where.line <= max(where.line, where.end_line)


@dataclass
class _Branch:
    """A line of the user's on a path to others, with the seconds on it and beneath it."""

    where: Site
    seconds: float = 0.0
    heaviest: float = 0.0  # the host's seconds of one line, or the GPU's where these are more
    line: Line | None = None
    beneath: dict[Site, _Branch] = field(default_factory=dict)

    def functions(self) -> list[list[_Branch]]:
        """What it calls, in groups of a function, the dearest first."""
        groups: defaultdict[tuple[str, str], list[_Branch]] = defaultdict(list)
        for branch in sorted(self.beneath.values(), key=lambda branch: -branch.seconds):
            groups[branch.where.file, branch.where.function].append(branch)
        return sorted(groups.values(), key=lambda group: -sum(each.seconds for each in group))


def _rows(
    branch: _Branch, least: float, lines: StepLines, diagnosis: Diagnosis, depth: int = 0
) -> Iterator[SourceRow]:
    """The rows of what a branch calls: its lines with what those call beneath.

    A function of which no line alone takes enough is one row.
    """
    for nth, function in enumerate(branch.functions()):
        first, *more = function
        named = [line for line in function if max(line.seconds, line.heaviest) >= least]
        introduced = depth > 0 and nth == 0 and branch.line is None  # "calls `it`"
        seconds = sum(line.seconds for line in function)
        if not named and not introduced and seconds >= least:
            name = first.where.function
            where = f"in `{name}`" if name not in ("", "<module>") else "at the top level"
            shown, share = _share(seconds, lines)
            yield SourceRow(shown, share, what=f"{where}, {len(function)} lines", depth=depth)
        for line in named:
            entry = depth == 0 and not more and line.line is None  # the call of `main`
            if not entry:
                yield _row(line, least, lines, diagnosis, depth)
            yield from _rows(line, least, lines, diagnosis, depth + (not entry))


def _row(
    branch: _Branch, least: float, lines: StepLines, diagnosis: Diagnosis, depth: int
) -> SourceRow:
    """The row of a line with how the time passes on it, what it calls aside."""
    line = branch.line or Line(branch.where, "", 0.0, ())
    text, called = "", branch.functions()
    if not branch.beneath or line.seconds >= least:
        text = _what(line, diagnosis)
    if text and branch.beneath:
        text = f"itself {_share(line.seconds, lines)[0]}: {text}"
    if line.device_s is not None and line.device_s >= WORTH_A_NODE * lines.seconds:
        text += f"{'; ' if text else ''}{units.seconds(line.device_s)} on the GPU"
    if not text and not line.text and called:
        text = f"calls `{called[0][0].where.function}`"
    parts = tuple((part.seconds / lines.seconds, KINDS[part.kind][1]) for part in line.parts)
    where = place(branch.where, diagnosis.cwd)
    return SourceRow(*_share(branch.seconds, lines), where, line.text, text, parts, depth)


def _share(seconds: float, lines: StepLines) -> tuple[str, float]:
    """A share in words, with half of its interval where the samples are few, and the share."""
    share = min(1.0, seconds / lines.seconds) if lines.seconds else 0.0
    half = lines.half_width(share)
    told = f"{share * 100:.0f} ± {half * 100:.0f} %" if half > UNSURE else units.share(share)
    return told, share


def _what(line: Line, diagnosis: Diagnosis) -> str:
    """Say in a few words how the time of a line passes."""
    kinds = [part.kind for part in line.parts if part.seconds >= SECOND * line.seconds][:2]
    if (line.operators or 0) >= MANY and "operators" not in kinds:
        kinds[1:] = ["operators"]
    words = [_kind(line, kind) for kind in kinds]
    if _runs_the_loop(line, diagnosis):
        name = line.called.rpartition(".")[2]
        words[0] = "the framework's own work" + (f" in `{name}`" if name else "")
    return " and ".join(words)


def _kind(line: Line, kind: LineKind) -> str:
    """A kind in words: with the function of a library that the line's text does not show."""
    names = line.called.split(".")
    known = len(names) > 1 and all(map(str.isidentifier, names))
    if kind == "library" and known and not line.call.startswith(OF_FRAMEWORKS):
        of_a_class = names[-2].strip("_")[:1].isupper()
        return f"{KINDS[kind][0]} in `{names[-2] if of_a_class else names[0]}.{names[-1]}`"
    if kind == "operators" and (line.operators or 0) >= MANY:
        small = "small " if line.makes_small_calls else ""
        return f"{line.operators:,.0f} calls of {small}operators"
    return KINDS[kind][0]


SECTIONS = (Section("lines", STEP + 30, tree, True, side="step"),)

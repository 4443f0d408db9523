"""A step by lines of the user's own files, as a tree: in short of the heaviest ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from trainperf.model import Diagnosis, Line, LineKind, Site, StepLines, known
from trainperf.model import words as units
from trainperf.model.lines import MANY, OF_FRAMEWORKS
from trainperf.report.document import (
    DATA,
    EXCHANGE,
    HOST,
    MODEL,
    QUIET,
    RANKS,
    STEP,
    Lines,
    Page,
    Section,
    SourceRow,
    say,
)
from trainperf.report.plain import place

HEADING = "By line"

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

BESIDE = 5
"""How many lines of other threads a report names."""

UNSURE = 0.05
"""Half of the interval of a share from which it is told."""

SECOND = 0.15
"""Share of a line from which the second of the ways in which its time passes is told."""


def short(diagnosis: Diagnosis, page: Page) -> None:
    """Write the heaviest lines beneath those that call them."""
    lines = known(diagnosis.evidence.lines_)
    if lines is None:
        return
    heavy = [line for line in lines.lines if line.weight >= IN_SHORT * lines.seconds]
    if len(heavy) != 1 or not _runs_the_loop(heavy[0], diagnosis):  # else there is none to name
        _write(lines, IN_SHORT, diagnosis, page)


def tree(diagnosis: Diagnosis, page: Page) -> None:
    """Write the lines beneath those that call them, and the lines that other threads are at."""
    lines = known(diagnosis.evidence.lines_)
    if lines is None:
        return
    _write(lines, WORTH_A_NODE, diagnosis, page)
    beside = [line for line in lines.beside if line.seconds >= WORTH_A_NODE * lines.seconds]
    if beside:
        page.heading("Meanwhile, on other threads")
        rows = [
            replace(_line(line, lines, diagnosis, alone=True), shown=units.seconds(line.seconds))
            for line in beside[:BESIDE]
        ]
        page.add(Lines(tuple(rows), ()))


def _write(lines: StepLines, worth: float, diagnosis: Diagnosis, page: Page) -> None:
    """Write the tree of what takes that share of a step, what is on no line last."""
    root, least = _Branch(Site("", 0)), worth * lines.seconds
    for line in lines.lines:
        branch = root
        for site in (*line.callers, line.where):
            branch = branch.beneath.setdefault(site, _Branch(site))
            branch.seconds += line.seconds
            branch.heaviest = max(branch.heaviest, line.weight)
        branch.line = line
    rows = list(_nodes(root, least, lines, diagnosis))
    if not rows:
        return
    if lines.elsewhere_s >= least:
        shown, share = _share(lines.elsewhere_s, lines), _of(lines.elsewhere_s, lines)
        rows.append(SourceRow(shown, share, what="on no line of yours", start=1 - share))
    page.heading(HEADING)
    tones = {tone for row in rows for _, tone in row.parts}
    page.add(Lines(tuple(rows), tuple(pair for pair in KINDS.values() if pair[1] in tones)))
    how = "Shares of a step; each line holds all that runs beneath it."
    page.prose(say(how, QUIET), indent=2)


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
        return sorted(groups.values(), key=_seconds, reverse=True)


def _seconds(branches: Iterable[_Branch]) -> float:
    return sum(branch.seconds for branch in branches)


def _nodes(
    branch: _Branch,
    least: float,
    lines: StepLines,
    diagnosis: Diagnosis,
    depth: int = 0,
    start: float = 0.0,
) -> Iterator[SourceRow]:
    """The rows of what a branch calls: functions, their lines, what those call.

    `start` are the seconds of the step that are drawn before it.
    """
    functions = branch.functions()
    introduced = depth > 0 and branch.line is None and len(functions) == 1  # "calls `it`"
    for function in functions:
        whole = _seconds(function)
        first, *more = function
        named = [line for line in function if max(line.seconds, line.heaviest) >= least]
        if whole < least and not named:
            continue
        if depth == 0 and not more and first.line is None:  # the call of `main`
            yield from _nodes(first, least, lines, diagnosis, depth, start)
            start += whole
            continue
        inner, alone = depth, len(named) == 1
        if not alone and not introduced:
            name = _in(first.where) or "at the top level"
            count = f", {len(function)} lines" if not named else ""
            shown, share = _share(whole, lines), _of(whole, lines)
            where = start / lines.seconds
            yield SourceRow(shown, share, what=f"{name}{count}", depth=depth, start=where)
            inner += 1
        at = start
        for line in named:
            row = _row(line, least, lines, diagnosis, alone=alone and not introduced)
            yield replace(row, depth=inner, start=at / lines.seconds)
            own = 0.0 if line.line is None else line.line.seconds
            yield from _nodes(line, least, lines, diagnosis, inner + 1, at + own)
            at += line.seconds
        start += whole


def _row(
    branch: _Branch, least: float, lines: StepLines, diagnosis: Diagnosis, *, alone: bool
) -> SourceRow:
    """The row of a line with what it calls, and what passes on itself where that is enough."""
    worth = [function[0].where for function in branch.functions() if _seconds(function) >= least]
    line = branch.line
    row = _line(line or Line(branch.where, "", 0.0, ()), lines, diagnosis, alone=alone)
    if worth:
        text = f"calls {', '.join(f'`{where.function}`' for where in worth)}"
        if line is not None and line.seconds >= least:
            text += f"; itself {_share(line.seconds, lines)}: {_what(line, diagnosis)}"
        row = replace(row, what=_within(text, branch.where, alone))
    return replace(row, shown=_share(branch.seconds, lines), share=_of(branch.seconds, lines))


def _line(line: Line, lines: StepLines, diagnosis: Diagnosis, *, alone: bool) -> SourceRow:
    """The row of a line; `alone` where no row above it names its function."""
    text = _what(line, diagnosis)
    if line.device_s is not None and line.device_s >= WORTH_A_NODE * lines.seconds:
        text += f"; {units.seconds(line.device_s)} on the GPU"
    return SourceRow(
        _share(line.seconds, lines),
        _of(line.seconds, lines),
        place(line.where, diagnosis.cwd),
        line.text,
        _within(text, line.where, alone),
        tuple((_of(part.seconds, lines), KINDS[part.kind][1]) for part in line.parts),
    )


def _within(text: str, where: Site, alone: bool) -> str:
    """Say what passes, and in which function where no row above names it."""
    return f"{within}: {text}" if alone and (within := _in(where)) else text


def _in(where: Site) -> str:
    return f"in `{where.function}`" if where.function not in ("", "<module>") else ""


def _of(seconds: float, lines: StepLines) -> float:
    return min(1.0, seconds / lines.seconds) if lines.seconds else 0.0


def _share(seconds: float, lines: StepLines) -> str:
    """Say a share, with half of its interval where the samples are few."""
    share = _of(seconds, lines)
    half = lines.half_width(share)
    return f"{share * 100:.0f} ± {half * 100:.0f} %" if half > UNSURE else units.share(share)


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


SECTIONS = (Section("lines", STEP + 30, tree, short, side="step"),)

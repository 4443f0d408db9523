"""The findings as GitHub's workflow commands: annotations beside the lines of a change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trainperf.model import Diagnosis, Site, by_fix
from trainperf.model import words as units
from trainperf.recording.cells import is_notebook
from trainperf.report.level import ASKED_FOR_NOTHING, Judgement, Level
from trainperf.report.plain import inside, one_line
from trainperf.report.sections import step
from trainperf.report.sections.findings import advice, gives
from trainperf.reporters.github.commands import command

MOST = 10
"""Annotations of one kind that GitHub shows for each step."""

_COMMANDS: dict[Level, str] = {"error": "error", "warning": "warning", "note": "notice"}


@dataclass(frozen=True)
class _Annotation:
    level: Level
    title: str
    message: str
    site: Site | None = None


def render(
    diagnosis: Diagnosis, *, judgement: Judgement = ASKED_FOR_NOTHING, root: str = ""
) -> str:
    """Return one command a line: what fails the check, and the findings.

    At most `MOST` of each kind, the most severe first, and a notice that counts the rest.
    Files are relative to `root`, the repository's; a place outside it is not given.
    """
    root = root or diagnosis.cwd
    kept: list[_Annotation] = []
    left_out = dict.fromkeys(_COMMANDS, 0)
    shown = dict.fromkeys(_COMMANDS, MOST)
    found = [*_run(diagnosis, judgement), *_findings(diagnosis, judgement)]
    if any(sum(each.level == level for each in found) > MOST for level in _COMMANDS):
        shown["note"] -= 1  # the last is for the count
    for level in _COMMANDS:
        those = [each for each in found if each.level == level]
        kept += those[: shown[level]]
        left_out[level] = len(those[shown[level] :])
    if any(left_out.values()):
        kept.append(_rest(left_out))
    return "\n".join(_command(each, root) for each in kept)


def _run(diagnosis: Diagnosis, judgement: Judgement) -> list[_Annotation]:
    """Faults beyond the findings: the check as a whole, a run that ended badly."""
    found = [_Annotation("error", "trainperf check", one) for one in judgement.problems]
    if judgement.answer:
        level: Level = "warning" if judgement.undecided else "note"
        found.append(_Annotation(level, "trainperf check", judgement.answer))
    if early := step.ended_early(diagnosis):
        last = step.output_of(diagnosis).rpartition("\n")[2].strip()
        said = f"{diagnosis.script}: {early}" + (f"\nIts last output: {last}" if last else "")
        found.append(_Annotation("error", "trainperf", said))
    return found


def _findings(diagnosis: Diagnosis, judgement: Judgement) -> Iterable[_Annotation]:
    trials = by_fix(diagnosis.trials)
    for finding in diagnosis.findings:
        level = judgement.level(finding, diagnosis)
        worth = gives(finding, diagnosis)
        parts = (
            f"{worth[:1].upper()}{worth[1:]}.",
            finding.text,
            advice(finding, trials.get(finding.id)),
            f"trainperf explain {finding.id}",
        )
        message = "\n".join(part for part in parts if part)
        title, site = f"trainperf: {finding.title}", next(iter(finding.where), None)
        yield _Annotation(level, title, message, site)


def _rest(left_out: dict[Level, int]) -> _Annotation:
    counts = (units.count(many, level) for level, many in left_out.items() if many)
    text = f"{' and '.join(counts)} not shown here: the job summary has all of them."
    return _Annotation("note", "trainperf", text)


def _command(each: _Annotation, root: str) -> str:
    place: dict[str, str | int] = {}
    path = None if each.site is None else inside(each.site.file, root)
    if each.site is not None and path is not None:
        place = {"file": path}
        if not is_notebook(path):  # lines of a cell are no lines of its file
            place["line"] = max(1, each.site.line)
        if "line" in place and each.site.end_line > each.site.line:
            place["endLine"] = each.site.end_line
    return command(_COMMANDS[each.level], each.message, **place, title=one_line(each.title))

"""Changes of the experiment: measured like the rest, and kept apart from it."""

from __future__ import annotations

from collections.abc import Iterator

from trainperf.model import Diagnosis, ExperimentChange, Outcome
from trainperf.model import words as units
from trainperf.report.document import CHANGES, QUIET, STRONG, Code, Page, Section, say
from trainperf.report.plain import places

HEADING = "These would change the experiment"
IN_NO_PATCH = (
    "In no patch: `trainperf explain ID` says what one changes, `trainperf fix --only ID` makes "
    "it, `--allow-semantic` tries them with the rest."
)


def experiment(diagnosis: Diagnosis, page: Page) -> None:
    """Print each with its work per second, what it changes, why it is faster, and the edit."""
    _write(diagnosis, page, full=True)


def short(diagnosis: Diagnosis, page: Page) -> None:
    """Print the same without what each changes, the evidence, the advice and the code."""
    _write(diagnosis, page, full=False)


def _write(diagnosis: Diagnosis, page: Page, full: bool) -> None:
    if not diagnosis.experiment_changes:
        return
    page.heading(HEADING)
    page.prose(IN_NO_PATCH, indent=2)
    for change in diagnosis.experiment_changes:
        finding = change.finding
        where = places(finding.where, diagnosis.cwd, most=1)
        if full:
            page.gap()
        page.prose(say(finding.title, STRONG), indent=2)
        page.prose(say(f"{where} · {finding.id}" if where else finding.id, QUIET), indent=4)
        more = (finding.text, finding.advice) if full else ()
        why = change.why if full or change.losses_differ else ""
        for text in (*rates(change), *_failed(change, diagnosis), why, *more):
            page.paragraphs(text, indent=4)
        if full and finding.snippet.strip():
            page.gap()
            page.add(Code(finding.snippet, "python", 6))


def apart(diagnosis: Diagnosis) -> frozenset[str]:
    """The ids of the changes that stand here, and among no other advice."""
    return frozenset(change.finding.id for change in diagnosis.experiment_changes)


def rates(change: ExperimentChange) -> Iterator[str]:
    """Say of each way how much faster it is, and what it makes of the work per second."""
    for way in change.ways:
        speedup = way.speedup or 1.0
        name = f"{way.variant}: " if way.variant else ""
        beneath = f", on top of {', '.join(way.on_top)}" if way.on_top else ""
        after = units.rate(change.before_per_s * speedup, change.unit)
        figure = units.measured(speedup, way.low, way.high)
        yield f"{name}{figure}, {units.number(change.before_per_s)} → {after}{beneath}"


def _failed(change: ExperimentChange, diagnosis: Diagnosis) -> Iterator[str]:
    """Say of each way that could not be run why: the memory that it needs is not there, mostly."""
    for trial in diagnosis.trials:
        if trial.fix == change.finding.id and trial.outcome is Outcome.FAILED:
            yield f"{trial.name} failed: {trial.why}."


SECTIONS = (Section("experiment", CHANGES + 50, experiment, short, side="experiment"),)

"""Changes of the experiment: measured like the rest, and kept apart from it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from trainperf.model import Diagnosis, ExperimentChange, Outcome
from trainperf.model import words as units
from trainperf.report.document import (
    CHANGES,
    QUIET,
    STRONG,
    Apart,
    Code,
    Commands,
    Page,
    Section,
    say,
)
from trainperf.report.plain import places

HEADING = "These would change the experiment"
IN_NO_PATCH = (
    "in no patch, and in no figure but these. Whether it trains as well with them, or logs enough, "
    "is yours to compare. `--allow-semantic` measures them together with the rest, and lets them "
    "into the patch."
)
ALONE = "Measured beside the script as it is, each alone"
ON_TOP = "Each measured by itself, beside the script as it is or with what was kept before"
AS_IT_IS = "as it is"
CHANGED = "changed"


def experiment(diagnosis: Diagnosis, page: Page) -> None:
    """Print each with its work per second, what it changes, and the edit."""
    _write(diagnosis, page, full=True)


def short(diagnosis: Diagnosis, page: Page) -> None:
    """Print the same without the evidence, the advice and the code."""
    _write(diagnosis, page, full=False)


def apart(diagnosis: Diagnosis) -> frozenset[str]:
    """The ids of the changes that stand here, and among no other advice."""
    return frozenset(one.finding.id for one in diagnosis.experiment_changes)


def rates(change: ExperimentChange) -> Iterator[tuple[str, str, str]]:
    """A row for the script as it is and for each way: its name, its rate, its speed-up."""
    yield before(change), units.number(change.before_per_s), ""
    for way in change.ways:
        speedup, low, high = way.speedup or 1.0, way.low or 1.0, way.high or 1.0
        rate, *ends = (units.number(change.before_per_s * one) for one in (speedup, low, high))
        after = f"{rate} ({' to '.join(ends)})"
        yield way.variant or CHANGED, after, units.measured(speedup, way.low, way.high)


def before(change: ExperimentChange) -> str:
    """The script that the change was measured beside."""
    beneath = change.ways[0].on_top
    return f"with {', '.join(beneath)}" if beneath else AS_IT_IS


def _failed(change: ExperimentChange, diagnosis: Diagnosis) -> Iterator[str]:
    """Say of each way that could not be run why: the memory that it needs is not there, mostly."""
    for trial in diagnosis.trials:
        if trial.fix == change.finding.id and trial.outcome is Outcome.FAILED:
            yield f"{trial.variant or CHANGED} failed: {trial.why}."


def _command(change: ExperimentChange, saved: str) -> tuple[str, str]:
    """The command that makes the edit, and what it does."""
    run = f"{shlex.quote(saved)} " if saved else ""
    first = change.ways[0].variant
    way = f", {first}" if first else ""
    return (
        f"trainperf fix {run}--only {change.finding.id}",
        f"make this edit{way}; with --diff, see it first",
    )


def _write(diagnosis: Diagnosis, page: Page, full: bool) -> None:
    if not diagnosis.experiment_changes:
        return
    page.heading(HEADING)
    on_top = any(change.ways[0].on_top for change in diagnosis.experiment_changes)
    page.prose(f"{ON_TOP if on_top else ALONE}; {IN_NO_PATCH}", indent=2)
    for change in diagnosis.experiment_changes:
        finding = change.finding
        page.gap()
        page.prose(say(finding.title, STRONG), indent=2)
        page.add(Apart(places(finding.where, diagnosis.cwd), finding.id, QUIET, 2))
        page.gap()
        header = ("", f"{change.unit}/s", "as fast")
        page.table(list(rates(change)), header=header, elastic=(0,), indent=4)
        for text in _failed(change, diagnosis):
            page.prose(text, indent=4)
        if full and finding.text:
            page.gap()
            page.paragraphs(finding.text, indent=2)
        for text in (change.why, finding.advice) if full else (change.why,):
            if text:
                page.gap()
                page.paragraphs(text, indent=2)
        if full and finding.snippet.strip():
            page.gap()
            page.add(Code(finding.snippet, "python", 6))
        page.gap()
        page.add(Commands((_command(change, page.saved),)))


SECTIONS = (Section("experiment", CHANGES + 50, experiment, short, side="experiment"),)

"""The ranked findings with what came of trying them, and changes of the experiment."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

from trainperf.fixes import by_id
from trainperf.model import (
    Diagnosis,
    Equivalence,
    ExperimentChange,
    Finding,
    Outcome,
    Trial,
    by_fix,
)
from trainperf.model import words as units
from trainperf.report.document import (
    CHANGES,
    GOOD,
    QUIET,
    STRONG,
    Code,
    Page,
    Section,
    Words,
    exactly,
    plain_text,
    say,
)
from trainperf.report.level import of_what, rejected
from trainperf.report.plain import one_line, places
from trainperf.report.sections.trials import came_with

EQUIVALENCE = {
    Equivalence.EXACT: "exact: same numbers",
    Equivalence.NUMERICS: "numerics: same maths, other rounding or order",
    Equivalence.SEMANTICS: "changes the experiment",
    Equivalence.ENVIRONMENT: "environment: no change to the source",
}
"""Each equivalence in words."""

IN_FULL = 2
"""How many findings a short report tells in full."""

NONE = "No repair that trainperf knows stands out of the noise of this run."

EXPERIMENT = "These would change the experiment"

IN_NO_PATCH = (
    "In no patch: `trainperf explain ID` says what one changes, `trainperf fix --only ID` makes "
    "it, `--allow-semantic` tries them with the rest."
)


def findings(diagnosis: Diagnosis, page: Page) -> None:
    """Print the findings that are advice in their order, or say that there is none."""
    _advice(diagnosis, page)


def short(diagnosis: Diagnosis, page: Page) -> None:
    """Print the first findings that are advice, and of the others what they can give.

    Why a change was worth trying is left out where it was measured, its code where the patch has
    it.
    """
    _advice(diagnosis, page, short=True)


def apart(diagnosis: Diagnosis) -> frozenset[str]:
    """The ids of the changes that have a section of their own, and stand among no other advice."""
    return frozenset(change.finding.id for change in diagnosis.experiment_changes)


def _advice(diagnosis: Diagnosis, page: Page, *, short: bool = False) -> None:
    """Write what to change; in short the first two with why and how."""
    looked = not (diagnosis.proofs or diagnosis.read_from)
    asked = diagnosis.ending.complete and diagnosis.step_s is not None and looked
    open_ = diagnosis.verdict.grade == "settled" and not diagnosis.verdict.healthy
    if not diagnosis.findings and asked and open_:
        page.gap()
        page.prose(NONE)
    trials, others = by_fix(diagnosis.trials), apart(diagnosis)
    found = [finding for finding in diagnosis.findings if finding.id not in others]
    left = [finding for finding in found if not rejected(trials.get(finding.id))]
    if not (left or any(trial.kept for trial in diagnosis.trials)):
        _by_hand(found, diagnosis, page)
    if left:
        page.heading("What to change")
    for rank, finding in enumerate(left, start=1):
        trial = trials.get(finding.id)
        if rank > 1 and (not short or rank <= IN_FULL):
            page.gap()
        page.prose(say(finding.title, STRONG), first=exactly(f"{rank}. ".rjust(4), STRONG))
        page.prose(worth(finding, trial, diagnosis), indent=4)
        if short and rank > IN_FULL:
            continue
        beaten = trial is not None and trial.speedup is not None and not trial.kept
        _place(finding, None if short and beaten else trial, diagnosis, page)
        if not short or trial is None or trial.speedup is None:
            page.paragraphs(finding.text, indent=4)
        page.paragraphs(finding.advice, indent=4)
        patched = diagnosis.patch is not None and finding.id in diagnosis.patch.findings
        _code(replace(finding, snippet="") if short and (patched or beaten) else finding, page)
        _to_prove(finding, trial, diagnosis, page)


def _by_hand(gone: list[Finding], diagnosis: Diagnosis, page: Page) -> None:
    """Say what else may be done about the cause that the verdict names, as its edit was no help."""
    side, trials = diagnosis.verdict.bottleneck, by_fix(diagnosis.trials)
    for finding in gone:
        told = advice(finding, trials.get(finding.id))
        if finding.category == side and told != finding.advice:
            page.heading("What to change")
            page.prose(say(finding.title, STRONG), first=exactly("  - "))
            page.prose(
                f"The edit that was tried is not kept: {gives(finding, diagnosis)}.", indent=4
            )
            if where := places(finding.where, diagnosis.cwd):
                page.prose(say(where, QUIET), indent=4)
            page.paragraphs(finding.text, indent=4)
            page.paragraphs(told, indent=4)
            return


def advice(finding: Finding, trial: Trial | None) -> str:
    """What to do; where its edit was tried and is not kept, what else, if anything is known."""
    fix = by_id().get(finding.id)
    return fix.by_hand or finding.advice if fix is not None and rejected(trial) else finding.advice


def worth(finding: Finding, trial: Trial | None, diagnosis: Diagnosis) -> Words:
    """Say what a finding gives: measured beside predicted, or the bound alone."""
    bound = "" if finding.bound is None else f"at most {units.bound(finding.bound)}"
    if trial is not None and trial.speedup is not None:
        way = f" with {trial.variant}" if trial.variant else ""
        way += of_what(trial, diagnosis)
        way += f" on top of {', '.join(trial.on_top)}" if trial.on_top else ""
        alone = trial.outcome is Outcome.NOT_TRIED
        words = f" as fast{way}{' alone' if alone else ''}, measured"
        figure = units.measured(trial.speedup, trial.low, trial.high, words)
        beside = f"; predicted {bound}" if bound else ""
        why = f"; {trial.reason}" if alone or trial.outcome is Outcome.CHANGES else ""
        return say(figure, STRONG if alone else GOOD) + exactly(f"{beside}{why}")
    text = say("what it can give is not known")
    if bound:
        style = STRONG if diagnosis.trials else GOOD  # green is for what was measured
        text = say(f"{bound} as fast", style)
    if finding.bound_basis:
        text += exactly(" ") + say(f"({finding.bound_basis})")
    if trial is not None:
        text += say(f"; {trial.outcome}{f': {trial.reason}' if trial.reason else ''}")
    return text


def gives(finding: Finding, diagnosis: Diagnosis) -> str:
    """Say what a finding gives, or what came of trying it, without a stop."""
    trial = by_fix(diagnosis.trials).get(finding.id)
    if trial is None or not rejected(trial):
        return plain_text(worth(finding, trial, diagnosis)).rstrip(".")
    told = []
    if trial.speedup is not None:
        figure = units.measured(trial.speedup, trial.low, trial.high)
        told.append(f"{figure}{of_what(trial, diagnosis)}")
    if finding.bound is not None:
        told.append(f"predicted at most {units.bound(finding.bound)}")
    said = filter(None, (", ".join(told), trial.reason.strip().rstrip(".")))
    return ": ".join(filter(None, (str(trial.outcome), "; ".join(said))))


def _place(finding: Finding, trial: Trial | None, diagnosis: Diagnosis, page: Page) -> None:
    """Write where it is, how far it changes the numbers, and how that came out."""
    where = places(finding.where, diagnosis.cwd)
    came = came_with(trial, trial.how) if trial is not None and trial.speedup is not None else ""
    told = " · ".join(filter(None, (where, EQUIVALENCE[finding.equivalence], came)))
    page.prose(say(told, QUIET), indent=4)


def _code(finding: Finding, page: Page) -> None:
    if finding.snippet.strip():
        page.gap()
        shell = finding.equivalence is Equivalence.ENVIRONMENT
        page.add(Code(finding.snippet, "bash" if shell else "python", 8))


def _to_prove(finding: Finding, trial: Trial | None, diagnosis: Diagnosis, page: Page) -> None:
    """Say how the repair is proved once somebody has made it, where trainperf cannot make it."""
    tried = trial is not None and trial.outcome is not Outcome.NOT_TRIED
    if finding.rewritable or not finding.where or tried:
        return
    command = one_line(shlex.join(diagnosis.command))
    page.prose(
        f"Once it is changed, `trainperf try --diff change.diff -- {command}` proves it.", indent=4
    )


def experiment(diagnosis: Diagnosis, page: Page) -> None:
    """Print each with its work per second, what it changes, why it is faster, and the edit."""
    _experiment(diagnosis, page, full=True)


def short_experiment(diagnosis: Diagnosis, page: Page) -> None:
    """Print the same without what each changes, the evidence, the advice and the code."""
    _experiment(diagnosis, page, full=False)


def _experiment(diagnosis: Diagnosis, page: Page, full: bool) -> None:
    if not diagnosis.experiment_changes:
        return
    page.heading(EXPERIMENT)
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
        for text in (*_rates(change), *_failed(change, diagnosis), why, *more):
            page.paragraphs(text, indent=4)
        if full:
            _code(finding, page)


def _rates(change: ExperimentChange) -> Iterator[str]:
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


SECTIONS = (
    Section("findings", CHANGES, findings, short, side="changes"),
    Section("experiment", CHANGES + 50, experiment, short_experiment, side="experiment"),
)

"""The ranked findings with what came of trying them, and changes of the experiment."""

from __future__ import annotations

from collections.abc import Iterator

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
from trainperf.report.plain import places
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

IN_NO_PATCH = "`trainperf fix --only ID` makes one; `trainperf explain ID` says what it changes."


def findings(diagnosis: Diagnosis, page: Page) -> None:
    """Print the findings that are advice in their order, or say that there is none.

    In short of the first two why and how, but not why a change that was measured was worth a
    trial, and code of the first alone, where trainperf cannot write it.
    """
    looked = not (diagnosis.proofs or diagnosis.read_from)
    asked = diagnosis.ending.complete and diagnosis.step_s is not None and looked
    open_ = diagnosis.verdict.grade == "settled" and not diagnosis.verdict.healthy
    if not diagnosis.findings and asked and open_:
        page.gap()
        page.prose(NONE)
    trials, others = by_fix(diagnosis.trials), apart(diagnosis)
    found = [finding for finding in diagnosis.findings if finding.id not in others]
    kept = any(trial.kept for trial in diagnosis.trials)
    left = [one for one in found if _is_open(trials.get(one.id), hidden=not kept)]
    if not (left or kept):
        _by_hand(found, diagnosis, page)
    if left:
        page.heading("What to change")
    for rank, finding in enumerate(left, start=1):
        trial = trials.get(finding.id)
        title, gain = say(finding.title, STRONG), worth(finding, trial, diagnosis)
        if rank > 1 and (page.full or rank <= IN_FULL + 1):
            page.gap()
        if not page.full and rank > IN_FULL:
            page.prose(title + exactly(": ") + gain, 1, label=f"{rank}.")
            continue
        page.prose(title, 1, label=f"{rank}.")
        page.prose(gain, 4)
        measured = trial is not None and trial.speedup is not None
        came = came_with(trial, trial.how, page.full) if trial is not None and measured else ""
        where = places(finding.where, diagnosis.cwd)
        same = EQUIVALENCE[finding.equivalence]
        told = filter(None, (where, same, came.removeprefix(f"{same}; ")))
        page.prose(say(" · ".join(told), QUIET), 4)
        if page.full or not measured:
            page.paragraphs(finding.text, 4)
        page.paragraphs(finding.advice, 4)
        if page.full or not (rank > 1 or finding.rewritable or measured):
            _code(finding, page)


def _is_open(trial: Trial | None, *, hidden: bool) -> bool:
    """Whether no trial showed that the change is not worth making.

    Where nothing pays, noise may have `hidden` that it does.
    """
    return not rejected(trial) or (hidden and trial is not None and trial.undecided)


def apart(diagnosis: Diagnosis) -> frozenset[str]:
    """The ids of the changes that have a section of their own, and stand among no other advice."""
    return frozenset(change.finding.id for change in diagnosis.experiment_changes)


def _by_hand(gone: list[Finding], diagnosis: Diagnosis, page: Page) -> None:
    """Say what else may be done about the cause that the verdict names, as its edit was no help."""
    side, trials = diagnosis.verdict.bottleneck, by_fix(diagnosis.trials)
    for finding in gone:
        told = advice(finding, trials.get(finding.id))
        if finding.category == side and told != finding.advice:
            page.heading("What to change")
            page.prose(say(finding.title, STRONG), 2, label="-")
            page.prose(f"The edit that was tried is not kept: {gives(finding, diagnosis)}.", 4)
            page.prose(say(places(finding.where, diagnosis.cwd), QUIET), 4)
            page.paragraphs(finding.text, 4)
            page.paragraphs(told, 4)
            return


def advice(finding: Finding, trial: Trial | None) -> str:
    """What to do; where its edit was tried and is not kept, what else, if anything is known."""
    fix = by_id().get(finding.id)
    return fix.by_hand or finding.advice if fix is not None and rejected(trial) else finding.advice


def worth(finding: Finding, trial: Trial | None, diagnosis: Diagnosis) -> Words:
    """Say what a finding gives: measured beside predicted, the bound alone, or why nothing."""
    bound = "" if finding.bound is None else f"at most {units.bound(finding.bound)}"
    tried = None if trial is None else trial.bound
    predicted = "" if tried is None else f"predicted at most {units.bound(tried)}"
    if trial is not None and rejected(trial):
        figure = units.measured(trial.speedup, trial.low, trial.high)
        figure += of_what(trial, diagnosis) if figure else ""
        figures = ", ".join(filter(None, (figure, predicted)))
        said = "; ".join(filter(None, (figures, trial.reason.strip())))
        outcome = "tried, not told from noise" if trial.undecided else str(trial.outcome)
        return say(": ".join(filter(None, (outcome, said))))
    if trial is not None and trial.speedup is not None:
        way = f" with {trial.variant}" if trial.variant else ""
        way += of_what(trial, diagnosis)
        way += f" on top of {', '.join(trial.on_top)}" if trial.on_top else ""
        alone = trial.outcome is Outcome.NOT_TRIED
        words = f" as fast{way}{' alone' if alone else ''}, measured"
        figure = units.measured(trial.speedup, trial.low, trial.high, words)
        why = trial.reason if alone or trial.outcome is Outcome.CHANGES else ""
        beside = "".join(f"; {text}" for text in (predicted, why) if text)
        return say(figure, STRONG if alone else GOOD) + exactly(beside)
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
    return plain_text(worth(finding, trial, diagnosis)).rstrip(".")


def _code(finding: Finding, page: Page) -> None:
    if finding.snippet.strip():
        page.gap()
        shell = finding.equivalence is Equivalence.ENVIRONMENT
        page.add(Code(finding.snippet, "bash" if shell else "python", 8))


def experiment(diagnosis: Diagnosis, page: Page) -> None:
    """Print each with its work per second; in full what it changes, why it is faster, the edit."""
    if not diagnosis.experiment_changes:
        return
    page.heading(EXPERIMENT)
    page.prose(IN_NO_PATCH, 2)
    for change in diagnosis.experiment_changes:
        finding = change.finding
        where = places(finding.where, diagnosis.cwd, most=1)
        if page.full:
            page.gap()
        page.prose(say(finding.title, STRONG), 2)
        page.prose(say(f"{where} · {finding.id}" if where else finding.id, QUIET), 4)
        more = (finding.text, finding.advice) if page.full else ()
        why = change.why if page.full or change.losses_differ else ""
        for text in (*_ways(change, diagnosis), why, *more):
            page.paragraphs(text, 4)
        if page.full:
            _code(finding, page)


def _ways(change: ExperimentChange, diagnosis: Diagnosis) -> Iterator[str]:
    """Say how much faster each way is and what that makes of the work, or why it could not run."""
    for way in change.ways:
        speedup = way.speedup or 1.0
        name = f"{way.variant}: " if way.variant else ""
        beneath = f", on top of {', '.join(way.on_top)}" if way.on_top else ""
        after = units.rate(change.before_per_s * speedup, change.unit)
        figure = units.measured(speedup, way.low, way.high)
        yield f"{name}{figure}, {units.number(change.before_per_s)} → {after}{beneath}"
    for trial in diagnosis.trials:
        if trial.fix == change.finding.id and trial.outcome is Outcome.FAILED:
            yield f"{trial.name} failed: {trial.why}."


SECTIONS = (
    Section("findings", CHANGES, findings, True, side="changes"),
    Section("experiment", CHANGES + 50, experiment, True, side="experiment"),
)

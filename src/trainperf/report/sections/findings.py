"""The ranked findings, and the outcomes of trying them."""

from __future__ import annotations

import shlex
from dataclasses import replace

from trainperf.model import Diagnosis, Equivalence, Finding, Outcome, Trial, by_fix
from trainperf.model import words as units
from trainperf.report.document import (
    CHANGES,
    GOOD,
    QUIET,
    STRONG,
    WARN,
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
from trainperf.report.sections.experiment import apart
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

Pair = tuple[Finding, Trial | None]


def findings(diagnosis: Diagnosis, page: Page) -> None:
    """Print the findings in their order, or say that there is none.

    Those that were tried and rejected are no advice: they come last, in short.
    """
    _advice(diagnosis, page)
    tried = [pair for pair in of_this_experiment(diagnosis) if rejected(pair[1])]
    if tried:
        page.heading("Tried, and not worth changing")
    for finding, _ in tried:
        where = places(finding.where, diagnosis.cwd, most=1)
        title = say(f"{finding.title} · {where}" if where else finding.title, QUIET)
        page.prose(title, first=exactly("  - ", QUIET))
        page.prose(say(f"{_upper(gives(finding, diagnosis))}.", WARN), indent=4)


def short(diagnosis: Diagnosis, page: Page) -> None:
    """Print the first findings that are advice, and of the others what they can give.

    Why a change was worth trying is left out where it was measured, its code where the patch has
    it.
    """
    _advice(diagnosis, page, short=True)


def of_this_experiment(diagnosis: Diagnosis) -> list[Pair]:
    """The findings with their trials, without those that have a section of their own."""
    trials, others = by_fix(diagnosis.trials), apart(diagnosis)
    return [(one, trials.get(one.id)) for one in diagnosis.findings if one.id not in others]


def _advice(diagnosis: Diagnosis, page: Page, *, short: bool = False) -> None:
    """Write what to change; in short the first two with why and how."""
    looked = not (diagnosis.proofs or diagnosis.read_from)
    asked = diagnosis.ending.complete and diagnosis.step_s is not None and looked
    open_ = diagnosis.verdict.grade == "settled" and not diagnosis.verdict.healthy
    if not diagnosis.findings and asked and open_:
        page.gap()
        page.prose(NONE)
    advice = [pair for pair in of_this_experiment(diagnosis) if not rejected(pair[1])]
    if advice:
        page.heading("What to change")
    for rank, (finding, trial) in enumerate(advice, start=1):
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


def worth(finding: Finding, trial: Trial | None, diagnosis: Diagnosis) -> Words:
    """Say what a finding gives: measured beside predicted, or the bound alone."""
    bound = "" if finding.bound is None else f"at most {units.bound(finding.bound)}"
    if trial is not None and trial.speedup is not None:
        way = f" with {trial.variant}" if trial.variant else ""
        way += of_what(trial, diagnosis)
        alone = trial.outcome is Outcome.NOT_TRIED
        way += f" on top of {', '.join(trial.on_top)}" if trial.on_top else ""
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


def alone(finding: Finding, diagnosis: Diagnosis, page: Page) -> None:
    """Print one finding by itself: what it gives, how its losses compare, why and how."""
    trial = by_fix(diagnosis.trials).get(finding.id)
    page.prose(f"{_upper(gives(finding, diagnosis))}.")
    _place(finding, trial, diagnosis, page)
    page.paragraphs(f"{finding.text}\n\n{finding.advice}")
    _code(finding, page)
    _to_prove(finding, trial, diagnosis, page)


def _upper(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


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


SECTIONS = (Section("findings", CHANGES, findings, short, side="changes"),)

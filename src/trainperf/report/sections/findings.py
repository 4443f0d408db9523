"""The ranked findings, the outcomes of trying them, and the practices."""

from __future__ import annotations

from dataclasses import replace

from trainperf.model import Diagnosis, Equivalence, Finding, Outcome, Trial, Verdict, by_fix
from trainperf.model import words as units
from trainperf.report.document import (
    CHANGES,
    GOOD,
    QUIET,
    STRONG,
    WARN,
    Apart,
    Code,
    Page,
    Section,
    Words,
    exactly,
    plain_text,
    say,
)
from trainperf.report.level import of_what, predicted, rejected
from trainperf.report.plain import places
from trainperf.report.sections.exchange import open_question
from trainperf.report.sections.experiment import apart
from trainperf.report.sections.proofs import to_prove
from trainperf.report.sections.trials import once

EQUIVALENCE = {
    Equivalence.EXACT: "exact: same numbers",
    Equivalence.NUMERICS: "numerics: same maths, other rounding or order",
    Equivalence.SEMANTICS: "changes the experiment",
    Equivalence.ENVIRONMENT: "environment: no change to the source",
}
"""Each equivalence in words."""

HELD_UP = ("input", "storage", "host", "sync")
"""Bottlenecks outside the model's own work: naming them is an answer, with no edit too."""


IN_FULL = 2
"""How many findings a short report tells in full."""

Pair = tuple[Finding, Trial | None]


def findings(diagnosis: Diagnosis, page: Page) -> None:
    """Print the findings in their order, or say that there is none.

    Those that were tried and rejected are no advice: they come last, in short.
    """
    _advice(diagnosis, page, len(diagnosis.findings))
    tried = of_this_experiment(diagnosis)
    if any(rejected(trial) for _, trial in tried):
        page.heading("Tried, and not worth changing")
    for finding, trial in tried:
        if trial is not None and rejected(trial):
            _in_short(finding, trial, diagnosis, page)


def short(diagnosis: Diagnosis, page: Page) -> None:
    """Print the first findings that are advice, and of the others what they can give.

    Why a change was worth trying is left out where it was kept, its code where the patch has it.
    """
    _advice(diagnosis, page, IN_FULL, short=True)


def of_this_experiment(diagnosis: Diagnosis) -> list[Pair]:
    """The findings with their trials, without those that have a section of their own."""
    trials, others = by_fix(diagnosis.trials), apart(diagnosis)
    return [(one, trials.get(one.id)) for one in diagnosis.findings if one.id not in others]


def _advice(diagnosis: Diagnosis, page: Page, in_full: int, *, short: bool = False) -> None:
    """Write what to change, the first `in_full` with why and how."""
    if not diagnosis.findings:
        if diagnosis.proofs or diagnosis.read_from:
            return  # nothing was looked for, or not by experiment
        if open_question(diagnosis) and (known := _none(diagnosis.verdict)):
            page.gap()
            page.prose(known)
        return
    advice = [one for one in of_this_experiment(diagnosis) if not rejected(one[1])]
    if advice:
        page.heading("What to change, most promising first")
    for rank, (finding, trial) in enumerate(advice, start=1):
        if rank > 1 or not short:
            page.gap()
        page.prose(say(finding.title, STRONG), first=exactly(f"{rank}. ".rjust(4), STRONG))
        page.prose(worth(finding, trial, diagnosis), indent=4)
        if rank <= in_full and short:
            _in_patch(finding, trial, diagnosis, page)
        elif rank <= in_full:
            _body(finding, diagnosis, page)


def _none(verdict: Verdict) -> str:
    """Say that there is no finding, where the verdict itself does not leave it open."""
    if verdict.bottleneck in HELD_UP:
        return "No repair that trainperf knows stands out of the noise of this run."
    settled = verdict.grade == "settled" and "that trainperf knows" not in verdict.text
    return "None of the causes that trainperf knows shows in what was measured." if settled else ""


def practices(diagnosis: Diagnosis, page: Page) -> None:
    """Print what concerns time to accuracy rather than the speed of a step."""
    if not diagnosis.practices or diagnosis.verdict.healthy:
        return
    page.heading("Time to accuracy (not ranked, not priced)")
    for practice in diagnosis.practices:
        page.gap()
        page.prose(say(practice.title, STRONG), first=exactly("  - "))
        _body(practice, diagnosis, page)


def worth(finding: Finding, trial: Trial | None, diagnosis: Diagnosis) -> Words:
    """Say what a finding gives: measured beside predicted, or the bound alone."""
    if trial is not None and trial.speedup is not None:
        way = f" with {trial.variant}" if trial.variant else ""
        way += of_what(trial, diagnosis)
        alone = trial.outcome is Outcome.NOT_TRIED
        way += f" on top of {', '.join(trial.on_top)}" if trial.on_top else ""
        words = f" as fast{way}{' alone' if alone else ''}, measured"
        figure = units.measured(trial.speedup, trial.low, trial.high, words)
        why = f"; {trial.reason}" if alone or trial.outcome is Outcome.CHANGES else ""
        text = say(figure, STRONG if alone else GOOD)
        return text + exactly(f"; {predicted(finding, trial)}{why}")
    if finding.bound is None:
        text = say("what it can give is not known")
    else:
        style = STRONG if diagnosis.trials else GOOD  # green is for what was measured
        text = say(f"at most {units.bound(finding.bound)} as fast", style)
    if finding.bound_basis:
        text += exactly(" ") + say(f"({finding.bound_basis})")
    if trial is not None:
        reason = f": {trial.reason}" if trial.reason else ""
        text += say(f"; {trial.outcome}{reason}")
    return text


def gives(finding: Finding, diagnosis: Diagnosis) -> str:
    """Say what a finding gives, or what came of trying it, without a stop."""
    trial = by_fix(diagnosis.trials).get(finding.id)
    if trial is not None and rejected(trial):
        return f"{trial.outcome}: {came_of(finding, trial, diagnosis)}".rstrip(".")
    return plain_text(worth(finding, trial, diagnosis)).rstrip(".")


def alone(finding: Finding, diagnosis: Diagnosis, page: Page) -> None:
    """Print one finding by itself: what it gives, how its losses compare, why and how."""
    if finding not in diagnosis.practices:
        trial = by_fix(diagnosis.trials).get(finding.id)
        came = () if trial is None else (trial.how, trial.parity)
        text = "; ".join(one for one in (gives(finding, diagnosis), *came) if one)
        page.prose(f"{text[0].upper()}{text[1:]}.")
    _body(finding, diagnosis, page)


def _in_short(finding: Finding, trial: Trial, diagnosis: Diagnosis, page: Page) -> None:
    where = places(finding.where, diagnosis.cwd, most=1)
    title = say(f"{finding.title} · {where}" if where else finding.title, QUIET)
    page.prose(title, first=exactly("  - ", QUIET))
    outcome = say(trial.outcome.capitalize(), WARN)
    page.prose(outcome + say(f": {came_of(finding, trial, diagnosis)}", QUIET), indent=4)


def came_of(finding: Finding, trial: Trial, diagnosis: Diagnosis) -> str:
    """Say what trying gave beside what was predicted, and why that is no gain."""
    figures = predicted(finding, trial)
    if trial.speedup is not None:
        alone = " alone" if trial.outcome is Outcome.REDUNDANT else ""
        measured = units.measured(trial.speedup, trial.low, trial.high, alone)
        figures = f"{measured}{of_what(trial, diagnosis)}, {figures}"
    reason = trial.reason.strip().rstrip(".")
    if not reason or reason.lower() == trial.outcome:
        return f"{figures}."
    if trial.outcome in (Outcome.FAILED, Outcome.LOSSES_DIFFER):
        return f"{reason}; {figures}."
    return f"{figures}; {reason}."


def _in_patch(finding: Finding, trial: Trial | None, diagnosis: Diagnosis, page: Page) -> None:
    """Write a finding without what nobody needs who has it from the patch."""
    patched = diagnosis.patch is not None and finding.id in diagnosis.patch.findings
    if trial is None or not trial.kept:
        _body(replace(finding, snippet="") if patched else finding, diagnosis, page)
        return
    words, where = EQUIVALENCE[finding.equivalence], places(finding.where, diagnosis.cwd)
    page.add(Apart(where, words, QUIET, 4))
    if told := "; ".join(filter(None, (trial.parity, trial.how, once(trial)))):
        page.prose(say(told, QUIET), indent=4)
    page.paragraphs(finding.advice, indent=4)
    if finding.snippet.strip() and not patched:
        page.add(Code(finding.snippet, "python", 8))


def _body(finding: Finding, diagnosis: Diagnosis, page: Page) -> None:
    words, where = EQUIVALENCE[finding.equivalence], places(finding.where, diagnosis.cwd)
    page.add(Apart(where, words, QUIET, 4))
    if finding.text:
        page.gap()
        page.paragraphs(finding.text, indent=4)
    if finding.advice:
        page.gap()
        page.paragraphs(finding.advice, indent=4)
    if finding.snippet.strip():
        page.gap()
        shell = finding.equivalence is Equivalence.ENVIRONMENT
        page.add(Code(finding.snippet, "bash" if shell else "python", 8))
    if proof := to_prove(finding, diagnosis):
        page.gap()
        page.prose(proof, indent=4)


SECTIONS = (
    Section("findings", CHANGES, findings, short, side="changes"),
    Section("practices", CHANGES + 60, practices, side="practices"),
)

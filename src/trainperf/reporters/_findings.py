"""What to change: the ranked findings, what trying them came to, and the practices."""

from __future__ import annotations

from rich.text import Text

from trainperf.model import Diagnosis, Ending, Equivalence, Finding, Outcome, Trial, Verdict, by_fix
from trainperf.model import words as units
from trainperf.report.level import rejected
from trainperf.reporters._paper import Paper
from trainperf.reporters._places import places
from trainperf.reporters._remains import remains

EQUIVALENCE = {
    Equivalence.EXACT: "exact: same numbers",
    Equivalence.NUMERICS: "numerics: same maths, other rounding or order",
    Equivalence.SEMANTICS: "changes the experiment",
    Equivalence.ENVIRONMENT: "environment: no change to the source",
}
"""What a fix may change, in words for people."""

HELD_UP = ("input", "storage", "host", "sync")
"""Bottlenecks outside the model's own work: naming them is an answer, with no edit too."""


def findings(diagnosis: Diagnosis, paper: Paper) -> None:
    """Print the findings in their order, or say that there is none.

    Those that were tried and rejected are no advice: they come last, in short.
    """
    if not diagnosis.findings:
        complete = diagnosis.ending in (Ending.MEASURED, Ending.FINISHED)
        if complete and diagnosis.times.real_s is not None and not diagnosis.verdict.healthy:
            if known := _none(diagnosis.verdict):
                paper.line()
                paper.prose(known)
            remains(diagnosis, paper)
        return
    trials = by_fix(diagnosis.trials)
    tried = [(finding, trials.get(finding.id)) for finding in diagnosis.findings]
    advice = [(finding, trial) for finding, trial in tried if not rejected(trial)]
    apart = [one for one in advice if one[1] is not None and one[1].outcome is Outcome.CHANGES]
    first = [one for one in advice if one not in apart]
    if first:
        paper.heading("What to change, most promising first")
    for rank, (finding, trial) in enumerate((*first, *apart), start=1):
        if apart and (finding, trial) == apart[0]:
            paper.heading("These would change the experiment: measured, and in no patch")
        paper.line()
        paper.prose(paper.say(finding.title, "bold"), first=paper.raw(f"{rank}. ".rjust(4), "bold"))
        _worth(finding, trial, bool(trials), paper)
        _body(finding, diagnosis, paper)
    if len(advice) < len(tried):
        paper.heading("Tried, and not worth changing")
    for finding, trial in tried:
        if trial is not None and rejected(trial):
            _in_short(finding, trial, diagnosis, paper)
    remains(diagnosis, paper)


def _none(verdict: Verdict) -> str:
    """Say that there is no finding, where the verdict itself does not leave it open."""
    if verdict.bottleneck in HELD_UP:
        return "No repair that trainperf knows stands out of the noise of this run."
    settled = verdict.grade == "settled"
    return "None of the causes that trainperf knows shows in what was measured." if settled else ""


def practices(diagnosis: Diagnosis, paper: Paper) -> None:
    """Print what concerns time to accuracy rather than the speed of a step."""
    if not diagnosis.practices or diagnosis.verdict.healthy:
        return
    paper.heading("Time to accuracy (not ranked, not priced)")
    for practice in diagnosis.practices:
        paper.line()
        paper.prose(paper.say(practice.title, "bold"), first=paper.raw("  - "))
        _body(practice, diagnosis, paper)


def _worth(finding: Finding, trial: Trial | None, tried: bool, paper: Paper) -> None:
    """Print what a finding gives: measured beside predicted, or the bound alone."""
    if trial is not None and trial.speedup is not None:
        way = f" with {trial.variant}" if trial.variant else ""
        alone = trial.outcome is Outcome.NOT_TRIED
        words = f" as fast{way}{' alone' if alone else ''}, measured"
        figure = units.measured(trial.speedup, trial.low, trial.high, words)
        text = paper.say(figure, "bold" if alone else "bold green")
        apart = f"; {trial.reason}" if alone or trial.outcome is Outcome.CHANGES else ""
        paper.prose(text + paper.raw(f"; {_predicted(finding, trial)}{apart}"), indent=4)
        return
    if finding.bound is None:
        text = paper.say("what it can give is not known")
    else:
        style = "bold" if tried else "bold green"  # green is for what was measured
        text = paper.say(f"at most {units.bound(finding.bound)} as fast", style)
    if finding.bound_basis:
        text += Text(" ") + paper.say(f"({finding.bound_basis})")
    if trial is not None:
        reason = f": {trial.reason}" if trial.reason else ""
        text += paper.say(f"; {trial.outcome}{reason}")
    paper.prose(text, indent=4)


def _predicted(finding: Finding, trial: Trial) -> str:
    bound = finding.bound if trial.bound is None else trial.bound
    if bound is None:
        return "nothing was predicted"
    missed = ", which was too low" if trial.low is not None and trial.low > bound else ""
    return f"predicted at most {units.bound(bound)}{missed}"


def _in_short(finding: Finding, trial: Trial, diagnosis: Diagnosis, paper: Paper) -> None:
    where = places(finding.where, diagnosis.cwd, most=1)
    title = paper.say(f"{finding.title} · {where}" if where else finding.title, "dim")
    paper.prose(title, first=paper.raw("  - ", "dim"))
    outcome = paper.say(trial.outcome.capitalize(), "yellow")
    paper.prose(outcome + paper.say(f": {_came_of(finding, trial)}", "dim"), indent=4)


def _came_of(finding: Finding, trial: Trial) -> str:
    """Say what trying gave beside what was predicted, and why that is no gain."""
    figures = _predicted(finding, trial)
    if trial.speedup is not None:
        alone = " alone" if trial.outcome is Outcome.REDUNDANT else ""
        measured = units.measured(trial.speedup, trial.low, trial.high, alone)
        figures = f"{measured}, {figures}"
    reason = trial.reason.strip().rstrip(".")
    if not reason or reason.lower() == trial.outcome:
        return f"{figures}."
    if trial.outcome in (Outcome.FAILED, Outcome.LOSSES_DIFFER):
        return f"{reason}; {figures}."
    return f"{figures}; {reason}."


def _body(finding: Finding, diagnosis: Diagnosis, paper: Paper) -> None:
    words, where = EQUIVALENCE[finding.equivalence], places(finding.where, diagnosis.cwd)
    together = f"{where} · {words}" if where else words
    if len(together) + 4 > paper.width:
        paper.prose(paper.say(where, "dim"), indent=4)
        together = words
    paper.prose(paper.say(together, "dim"), indent=4)
    if finding.text:
        paper.line()
        paper.paragraphs(finding.text, indent=4)
    if finding.advice:
        paper.line()
        paper.paragraphs(finding.advice, indent=4)
    if finding.snippet.strip():
        paper.line()
        shell = finding.equivalence is Equivalence.ENVIRONMENT
        paper.code(finding.snippet, "bash" if shell else "python", indent=8)

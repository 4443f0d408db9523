"""Cards of the findings and the table of trials, each with its interval drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace

from markupsafe import Markup

from trainperf.model import Diagnosis, Equivalence, ExperimentChange, Finding, Trial
from trainperf.report import document, level
from trainperf.report.document import Page
from trainperf.report.plain import places
from trainperf.report.sections import experiment, findings, proofs, trials
from trainperf.reporters.html.code import coloured
from trainperf.reporters.html.drawing import Interval, Scale, Tick, interval, scale
from trainperf.reporters.html.markup import paragraphs, prose, styled
from trainperf.reporters.html.sheet import shown

NARROW = 17.0
"""Per cent between two marks of the drawings in the table of trials."""

MANY = 9
"""Places of a finding that are named."""

Badge = tuple[str, str]
"""An outcome in words, and its tone."""


@dataclass(frozen=True)
class Card:
    """One finding. `number` is its rank among the advice, 0 for one that is none."""

    id: str
    title: Markup
    where: str
    equivalence: str
    text: list[Markup]
    advice: list[Markup]
    snippet: Markup | None
    number: int = 0
    badge: Badge | None = None
    worth: tuple[Markup, ...] = ()
    plot: Interval | None = None
    command: str = ""


@dataclass(frozen=True)
class Tried:
    """All trials, in the order of the terminal's report, and how they were made."""

    how: list[Markup]
    rows: list[tuple[document.Tried, Interval | None]]
    axis: list[Tick]
    more: Markup


@dataclass(frozen=True)
class Changes:
    """The advice, what was tried and rejected, the practices, and the trials.

    `experiments` are what would make another experiment of the script.
    """

    advice: list[Card]
    rejected: list[Card]
    experiments: list[Card]
    practices: list[Card]
    tried: Tried | None
    plotted: bool


def changes(diagnosis: Diagnosis, saved: str = "") -> Changes:
    """Everything the report says about what to change."""
    on = _scale(diagnosis)
    advice: list[Card] = []
    others: list[Card] = []
    for finding, trial in findings.of_this_experiment(diagnosis):
        card = _described(finding, diagnosis)
        badge = None if trial is None else trials.badge(trial, diagnosis)
        card = replace(card, badge=badge, plot=_plot(trial, finding.bound, diagnosis, on))
        if trial is not None and level.rejected(trial):  # no advice, and no code to paste
            came = f"{trial.outcome.capitalize()}: {findings.came_of(finding, trial, diagnosis)}"
            others.append(replace(card, worth=(prose(came),), text=[], advice=[], snippet=None))
        else:
            worth = styled(findings.worth(finding, trial, diagnosis))
            advice.append(replace(card, number=len(advice) + 1, worth=(worth,)))
    practices = () if diagnosis.verdict.healthy else diagnosis.practices
    return Changes(
        advice,
        others,
        [_experiment(one, diagnosis, saved, on) for one in diagnosis.experiment_changes],
        [_described(one, diagnosis) for one in practices],
        _tried(diagnosis, on),
        plotted=any(card.plot is not None for card in (*advice, *others)),
    )


def _scale(diagnosis: Diagnosis) -> Scale:
    """One scale for the whole page, so that the drawings can be compared."""
    figures: list[float | None] = [finding.bound for finding in diagnosis.findings]
    for trial in diagnosis.trials:
        figures += [trial.low, trial.high, trial.speedup, trial.bound]
    if diagnosis.control is not None:
        figures += [1 + diagnosis.control.floor, 1 / (1 + diagnosis.control.floor)]
    return scale(figures)


def _experiment(change: ExperimentChange, diagnosis: Diagnosis, saved: str, on: Scale) -> Card:
    """One that makes another experiment: its work per second, and the command that makes it."""
    (_, before, _), *after = experiment.rates(change)
    rates = [f"{name}: {before} → {rate}, {figure}" for name, rate, figure in after]
    told = (*rates, *experiment.failed(change, diagnosis))
    way, control = change.ways[0], diagnosis.control
    floor = None if control is None else control.floor
    card = _described(change.finding, diagnosis)
    return replace(
        card,
        badge=("losses differ" if change.losses_differ else "another experiment", document.WARN),
        worth=tuple(prose(one, 600) for one in told),
        plot=interval(on, way.speedup, way.low, way.high, bound=None, floor=floor),
        text=[*card.text, *paragraphs(change.why)],
        command=experiment.command(change, saved)[0],
    )


def _described(finding: Finding, diagnosis: Diagnosis) -> Card:
    shell = finding.equivalence is Equivalence.ENVIRONMENT
    code = coloured(finding.snippet, "bash" if shell else "python")
    return Card(
        id=finding.id,
        title=styled(finding.title),
        where=places(finding.where, diagnosis.cwd, most=MANY),
        equivalence=findings.EQUIVALENCE[finding.equivalence],
        text=paragraphs(finding.text),
        advice=paragraphs(f"{finding.advice}\n\n{proofs.to_prove(finding, diagnosis)}"),
        snippet=code if finding.snippet.strip() else None,
    )


def _plot(
    trial: Trial | None, bound: float | None, diagnosis: Diagnosis, on: Scale
) -> Interval | None:
    control = diagnosis.control
    floor = None if control is None else control.floor
    if trial is None:
        return interval(on, None, None, None, bound=bound, floor=floor)
    bound = bound if trial.bound is None else trial.bound
    return interval(
        on, trial.speedup, trial.low, trial.high, bound=bound, floor=floor, kept=trial.kept
    )


def _tried(diagnosis: Diagnosis, on: Scale) -> Tried | None:
    if not diagnosis.trials:
        return None
    more = Page()
    trials.rest(diagnosis, more)
    rows = [
        (replace(trials.row(trial, diagnosis), reason=trial.why), _plot(trial, None, diagnosis, on))
        for trial in trials.ordered(diagnosis)
    ]
    return Tried(
        how=[prose(text) for text in trials.how(diagnosis)],
        rows=rows,
        axis=on.ticks(NARROW) if any(plot is not None for _, plot in rows) else [],
        more=Markup(" ").join(one.text for one in shown(more.blocks)),
    )

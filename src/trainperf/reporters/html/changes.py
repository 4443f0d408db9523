"""Cards of the findings and the table of trials, each with its interval drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace

from markupsafe import Markup

from trainperf.model import (
    Cost,
    Diagnosis,
    Equivalence,
    ExperimentChange,
    Finding,
    Outcome,
    Stack,
    Trial,
    by_fix,
)
from trainperf.model import words as units
from trainperf.report import level
from trainperf.report.document import Page
from trainperf.report.plain import one_line, places, plain
from trainperf.report.sections import experiment, findings, proofs, trials
from trainperf.report.sections.money import dollars
from trainperf.reporters.html.code import coloured
from trainperf.reporters.html.drawing import Interval, Scale, Tick, interval, percent, scale
from trainperf.reporters.html.markup import clipped, paragraphs, prose, styled
from trainperf.reporters.html.sheet import shown

NARROW = 17.0
"""Per cent between two marks of the drawings in the table of trials."""

MANY = 9
"""Places of a finding that are named."""

STATES = {
    Outcome.KEPT: "good",
    Outcome.CHANGES: "warn",
    Outcome.LOSES: "warn",
    Outcome.REDUNDANT: "warn",
    Outcome.NO_EFFECT: "warn",
    Outcome.SLOWER: "warn",
    Outcome.LOSSES_DIFFER: "bad",
    Outcome.FAILED: "bad",
    Outcome.NOT_TRIED: "idle",
}
"""How the badge of an outcome looks; its words say the same."""


@dataclass(frozen=True)
class Bar:
    """The time of a step: as it is, with one change, or with all of them."""

    name: str
    figure: str
    seconds: str
    width: str
    fill: str


@dataclass(frozen=True)
class Versus:
    """A figure now, and with the changes."""

    name: str
    before: str
    after: str


@dataclass(frozen=True)
class Together:
    """The gain of the kept changes together."""

    title: str
    figure: str
    changed: str
    bars: list[Bar]
    interaction: Markup
    versus: list[Versus]


@dataclass(frozen=True)
class Badge:
    """An outcome in words, and how it looks."""

    words: str
    state: str


@dataclass(frozen=True)
class Card:
    """One finding. `number` is its rank among the advice, 0 for one that is none."""

    number: int
    id: str
    title: Markup
    badge: Badge | None
    worth: tuple[Markup, ...]
    plot: Interval | None
    where: str
    equivalence: str
    text: list[Markup]
    advice: list[Markup]
    snippet: Markup | None
    command: Markup | None = None


@dataclass(frozen=True)
class Row:
    """One trial, as the table of all of them has it."""

    name: str
    badge: Badge
    bound: str
    measured: str
    reason: Markup
    slices: str
    losses: Markup
    plot: Interval | None


@dataclass(frozen=True)
class Tried:
    """All trials, in the order of the terminal's report, and how they were made."""

    how: list[Markup]
    rows: list[Row]
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
    pairs = findings.of_this_experiment(diagnosis)
    advice = [one for one in pairs if not level.rejected(one[1])]
    cards = [
        _card(number, finding, trial, diagnosis, on)
        for number, (finding, trial) in enumerate(advice, start=1)
    ]
    others = [
        _in_short(finding, trial, diagnosis, on)
        for finding, trial in pairs
        if trial is not None and level.rejected(trial)
    ]
    practices = () if diagnosis.verdict.healthy else diagnosis.practices
    return Changes(
        advice=cards,
        rejected=others,
        experiments=[
            _experiment(one, diagnosis, saved, on) for one in diagnosis.experiment_changes
        ],
        practices=[_described(one, diagnosis) for one in practices],
        tried=_tried(diagnosis, on),
        plotted=any(card.plot is not None for card in (*cards, *others)),
    )


def _scale(diagnosis: Diagnosis) -> Scale:
    """One scale for the whole page, so that the drawings can be compared."""
    figures: list[float | None] = [finding.bound for finding in diagnosis.findings]
    for trial in diagnosis.trials:
        figures += [trial.low, trial.high, trial.speedup, trial.bound]
    if diagnosis.control is not None:
        figures += [1 + diagnosis.control.floor, 1 / (1 + diagnosis.control.floor)]
    return scale(figures)


def _card(
    number: int, finding: Finding, trial: Trial | None, diagnosis: Diagnosis, on: Scale
) -> Card:
    written = Page()
    findings.worth(finding, trial, diagnosis, written)
    return replace(
        _described(finding, diagnosis),
        number=number,
        badge=None if trial is None else _badge(trial, diagnosis),
        worth=tuple(one.text for one in shown(written.blocks)),
        plot=_plot(trial, finding.bound, diagnosis, on),
    )


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
        badge=Badge("losses differ" if change.losses_differ else "another experiment", "warn"),
        worth=tuple(prose(one, 600) for one in told),
        plot=interval(on, way.speedup, way.low, way.high, bound=None, floor=floor),
        text=[*card.text, *paragraphs(change.why)],
        command=Markup.escape(plain(experiment.command(change, saved)[0])),
    )


def _in_short(finding: Finding, trial: Trial, diagnosis: Diagnosis, on: Scale) -> Card:
    """One that was rejected: no advice, and no code to paste."""
    came = f"{trial.outcome.capitalize()}: {findings.came_of(finding, trial, diagnosis)}"
    return replace(
        _described(finding, diagnosis),
        badge=_badge(trial, diagnosis),
        worth=(prose(came),),
        plot=_plot(trial, finding.bound, diagnosis, on),
        text=[],
        advice=[],
        snippet=None,
    )


def _described(finding: Finding, diagnosis: Diagnosis) -> Card:
    return Card(
        number=0,
        id=clipped(one_line(finding.id), 80),
        title=styled(finding.title),
        badge=None,
        worth=(),
        plot=None,
        where=_where(finding, diagnosis),
        equivalence=findings.EQUIVALENCE[finding.equivalence],
        text=paragraphs(finding.text),
        advice=paragraphs(f"{finding.advice}\n\n{proofs.to_prove(finding, diagnosis)}"),
        snippet=_snippet(finding),
    )


def _where(finding: Finding, diagnosis: Diagnosis) -> str:
    return clipped(one_line(places(finding.where, diagnosis.cwd, most=MANY)), 600)


def _snippet(finding: Finding) -> Markup | None:
    if not finding.snippet.strip():
        return None
    shell = finding.equivalence is Equivalence.ENVIRONMENT
    return coloured(finding.snippet, "bash" if shell else "python")


def _badge(trial: Trial, diagnosis: Diagnosis) -> Badge:
    return Badge(trials.heading(trial, diagnosis), STATES[trial.outcome])


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
    rows = [_row(trial, diagnosis, on) for trial in trials.ordered(diagnosis)]
    return Tried(
        how=[prose(text) for text in trials.how(diagnosis)],
        rows=rows,
        axis=on.ticks(NARROW) if any(row.plot is not None for row in rows) else [],
        more=Markup(" ").join(one.text for one in shown(more.blocks)),
    )


def _row(trial: Trial, diagnosis: Diagnosis, on: Scale) -> Row:
    measured = trial.speedup is not None
    figure = units.measured(trial.speedup, trial.low, trial.high) if trial.speedup else ""
    reason = trial.why or ("" if measured else "no reason is known")
    told = [one for one in (reason, trials.once(trial)) if one]
    slices = ""
    if trial.pairs:
        slices = units.count(trial.pairs, "pair")
    if trial.steps:
        slices += f", {units.count(trial.steps, 'step')}"
    return Row(
        name=clipped(one_line(trial.name), 120),
        badge=_badge(trial, diagnosis),
        bound="" if trial.bound is None else units.bound(trial.bound),
        measured=figure,
        reason=prose("; ".join(told), 600),
        slices=slices,
        losses=prose(trial.parity, 300),
        plot=_plot(trial, None, diagnosis, on),
    )


def together(diagnosis: Diagnosis) -> Together | None:
    """The gain of the kept changes; None where none was kept."""
    kept = diagnosis.stack
    if kept is None or not kept.fixes:
        return None
    many = len(kept.fixes)
    return Together(
        title="The kept changes together" if many > 1 else "The kept change",
        figure=units.measured(kept.speedup, kept.low, kept.high),
        changed=together_with(kept),
        bars=_bars(kept, diagnosis) if many > 1 else [],
        interaction=prose(trials.interaction(kept)) if many > 1 else Markup(""),
        versus=_versus(kept, diagnosis.cost),
    )


def together_with(kept: Stack | None) -> str:
    """How a figure with all of the kept changes is headed."""
    return "with the change" if kept is not None and len(kept.fixes) == 1 else "with the changes"


def _bars(kept: Stack, diagnosis: Diagnosis) -> list[Bar]:
    alone = by_fix(diagnosis.trials)
    rows: list[tuple[str, str, float | None, str]] = [
        ("the script as it is", "", kept.before_step_s, "data")
    ]
    for fix in kept.fixes:
        trial = alone.get(fix)
        name = f"{clipped(one_line(fix), 80)} alone"
        if trial is None or not trial.speedup:
            rows.append((name, "not measured", None, "model"))
        else:
            figure = units.measured(trial.speedup, trial.low, trial.high)
            rows.append((name, figure, kept.before_step_s / trial.speedup, "model"))
    many = len(kept.fixes)
    whole = units.measured(kept.speedup, kept.low, kept.high)
    all_of_them = "both together" if many == 2 else f"all {many} together"
    rows.append((all_of_them, whole, kept.after_step_s, "accent"))
    longest = max((seconds for *_, seconds, _ in rows if seconds is not None), default=0.0)
    return [
        Bar(
            name,
            figure,
            "" if seconds is None else units.seconds(seconds),
            "" if seconds is None or longest <= 0 else percent(seconds / longest),
            fill,
        )
        for name, figure, seconds, fill in rows
    ]


def _versus(kept: Stack, cost: Cost | None) -> list[Versus]:
    pairs: list[tuple[str, str | None, str | None]] = [
        ("A step", units.seconds(kept.before_step_s), units.seconds(kept.after_step_s))
    ]
    before, after = kept.before_samples_per_s, kept.after_samples_per_s
    if before is not None and after is not None:
        pairs.append(("Rate", units.rate(before, "samples"), units.rate(after, "samples")))
    if kept.before_epoch_s is not None and kept.after_epoch_s is not None:
        was, is_now = units.duration(kept.before_epoch_s), units.duration(kept.after_epoch_s)
        pairs.append(("An epoch", was, is_now))
    if cost is not None:
        pairs.append(("Cost of an epoch", _usd(cost.epoch_before), _usd(cost.epoch_after)))
        pairs.append(
            (
                "Cost of a million samples",
                _usd(cost.million_samples_before),
                _usd(cost.million_samples_after),
            )
        )
    return [
        Versus(name, now, then) for name, now, then in pairs if now is not None and then is not None
    ]


def _usd(value: float | None) -> str | None:
    return None if value is None else dollars(value)

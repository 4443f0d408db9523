"""A comparison of two diagnoses for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from trainperf.model import words as units
from trainperf.reporters.terminal.paper import Paper

if TYPE_CHECKING:
    from trainperf.compare import Change, Comparison, Difference, FindingChange, TrialChange

HIGHER_IS_BETTER = ("samples/s", "share")
"""Units of which more is good; of the others, less; more cores busy is neither."""

WORSE = ("new", "no longer ignored")
"""States of findings that the earlier report did not have."""


def render(comparison: Comparison, console: Console) -> None:
    """Print what changed; where nothing did, one sentence says so."""
    paper = Paper(console)
    _verdicts(comparison, paper)
    if comparison.refusals:
        paper.heading("The times cannot be compared")
        for refusal in comparison.refusals:
            paper.item(refusal)
    _figures("Times", comparison.times, paper)
    _figures("Input, stage by stage", comparison.stages, paper)
    _figures("Parts of a step", comparison.step_parts, paper)
    _figures("Machine while training", comparison.utilization, paper)
    _findings([one for one in comparison.findings if one.state != "still"], paper)
    _trials(comparison.trials, paper)
    _differences("Script and settings", comparison.settings, paper)
    _differences("Machine", comparison.machine, paper)
    if comparison.basis == "samples":
        paper.line()
        paper.prose(comparison.remarks[0][0].upper() + comparison.remarks[0][1:] + ".")
    paper.line()
    paper.prose(_said(comparison))
    for remark in comparison.neighbours if comparison.changed else ():
        paper.prose(f"{remark[0].upper()}{remark[1:]}, which may be all that changed.")
    paper.print()


def _verdicts(comparison: Comparison, paper: Paper) -> None:
    for name, side in (("before", comparison.before), ("after", comparison.after)):
        first = paper.raw(f"{name:8}", "dim")
        paper.prose(f"{side.script}, {side.created}: {side.verdict}", first=first)


def _figures(title: str, changes: Sequence[Change], paper: Paper) -> None:
    if not changes:
        return
    paper.heading(title)
    rows: list[list[Text | str]] = [
        [
            one.name,
            "" if one.before is None else _amount(one.before.value, one.unit),
            "" if one.after is None else _amount(one.after.value, one.unit),
            "" if one.change is None else f"{one.change * 100:+.1f} %",
            _judged(one, paper),
        ]
        for one in changes
    ]
    paper.table(
        rows,
        header=("", "before", "after", "change", ""),
        right=(1, 2, 3),
        elastic=(0, 4),
    )


def _judged(change: Change, paper: Paper) -> Text | str:
    if change.reason:
        return change.reason
    if change.outside is None:
        return "its noise is not known"
    if not change.outside or change.change is None:
        return "within the noise"
    if change.unit in ("cores", "bytes"):
        return "more" if change.change > 0 else "less"
    better = (change.change > 0) == (change.unit in HIGHER_IS_BETTER)
    word = {"s": ("faster", "slower")}.get(change.unit, ("better", "worse"))[not better]
    return paper.say(word, "bold green" if better else "bold red")


def _amount(value: float, unit: str) -> str:
    if unit == "s":
        return units.seconds(value)
    if unit == "samples/s":
        return units.rate(value, "samples").replace(" samples", "")
    if unit == "share":
        return units.share(value)
    return units.cores(value) if unit == "cores" else units.size(value)


def _findings(changes: Sequence[FindingChange], paper: Paper) -> None:
    if not changes:
        return
    paper.heading("Findings")
    rows: list[list[Text | str]] = [
        [
            paper.say(one.state, "bold red" if one.state in WORSE else ""),
            one.id,
            "" if one.before is None else f"up to {units.bound(one.before)}",
            "" if one.after is None else f"up to {units.bound(one.after)}",
            one.title,
        ]
        for one in changes
    ]
    paper.table(rows, header=("", "", "before", "after", ""), right=(2, 3), elastic=(1, 4))


def _trials(changes: Sequence[TrialChange], paper: Paper) -> None:
    if not changes:
        return
    paper.heading("Fixes that were tried")
    rows: list[list[Text | str]] = [
        [
            one.fix,
            _tried(one.before, one.speedup_before),
            _tried(one.after, one.speedup_after),
        ]
        for one in changes
    ]
    paper.table(rows, header=("", "before", "after"), elastic=(0, 1, 2))


def _tried(outcome: str, speedup: float | None) -> str:
    figure = "" if speedup is None else units.ratio(speedup)
    return " ".join(one for one in (figure, outcome) if one) or "not tried"


def _differences(title: str, differences: Sequence[Difference], paper: Paper) -> None:
    if not differences:
        return
    paper.heading(title)
    rows: list[list[Text | str]] = [
        [one.name, one.before or "not known", one.after or "not known"] for one in differences
    ]
    paper.table(rows, header=("", "before", "after"), elastic=(1, 2))


def _said(comparison: Comparison) -> str:
    """The last line: how the speed changed, or that nothing did."""
    if comparison.refusals:
        return "The times are of other circumstances, so they say nothing about the script."
    if not comparison.changed:
        return "Nothing changed beyond the noise."
    name = "real step" if comparison.basis == "step" else "samples per second"
    speed = next((one for one in comparison.times if one.name == name), None)
    if speed is None or speed.outside is None:
        return "How fast it trains cannot be compared."
    if not speed.outside or speed.change is None:
        return "It trains as fast as before, as far as the noise lets tell."
    ratio = 1 + speed.change if comparison.basis == "samples" else 1 / (1 + speed.change)
    if ratio >= 1:
        return f"It trains {units.ratio(ratio)} as fast as before."
    return f"It trains slower: {units.ratio(ratio)} as fast as before."

"""The kept changes together: each alone, all of them, and what that makes of the script."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from trainperf.model import Cost, Diagnosis, Stack, by_fix
from trainperf.model import words as units
from trainperf.report.plain import one_line
from trainperf.report.sections import stack
from trainperf.report.sections.money import dollars
from trainperf.reporters.html.drawing import percent
from trainperf.reporters.html.markup import clipped, prose


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


def together(diagnosis: Diagnosis) -> Together | None:
    """What the kept changes give; None where none was kept."""
    kept = diagnosis.stack
    if kept is None or not kept.fixes:
        return None
    many = len(kept.fixes)
    return Together(
        title="The kept changes together" if many > 1 else "The kept change",
        figure=units.measured(kept.speedup, kept.low, kept.high),
        changed=together_with(kept),
        bars=_bars(kept, diagnosis) if many > 1 else [],
        interaction=prose(stack.interaction(kept)) if many > 1 else Markup(""),
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

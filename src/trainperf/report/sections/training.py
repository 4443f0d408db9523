"""The whole training as configured, now and with the changes; where the run's time goes."""

from __future__ import annotations

from trainperf.model import Diagnosis, Length, Outside, Training, known
from trainperf.model import words as units
from trainperf.model.outside import SPENT_ON, TURNS
from trainperf.report.document import CHANGES, STEP, STRONG, Page, Section, Words, say
from trainperf.report.plain import place
from trainperf.report.sections.money import dollars

HEADING = "The whole training"

LEDGER = (
    "Each as it was measured, times how often it comes; what the script does after its last step "
    "is not in it."
)

_MATTERS = 0.05
"""Share of the time from which what is no training step is worth a table."""

AROUND = 0.2
"""Share of the run outside its steps from which a short report says where it goes."""

OUTSIDE = "Where the run's time goes"

HEADER = ("spent on", "in", "where", "calls", "time", "share")


def training(diagnosis: Diagnosis, page: Page) -> None:
    """Print the training's length, its seconds now and after, and what they consist of."""
    whole = diagnosis.training
    if whole is None:
        return
    page.heading(HEADING)
    if whole.seconds_now is None:
        page.prose(f"How long it takes is not known: {whole.reason.rstrip('.')}.", indent=2)
        return
    if whole.configured is not None:
        page.prose(_configured(whole.configured), indent=2)
    page.prose(_basis(whole), indent=2)
    _ledger(whole, whole.seconds_now, page)


def change(diagnosis: Diagnosis) -> str:
    """Say the whole training before and after the kept changes, "" where that is not known.

    Only whole runs have an interval: a ledger is off by more than its steps vary.
    """
    whole = diagnosis.training
    if whole is None or whole.seconds_now is None or whole.seconds_after is None:
        return ""
    text = f"{units.clock(whole.seconds_now)} → {units.clock(whole.seconds_after)}"
    if whole.basis == "ledger":
        text = f"about {text}"
    elif whole.low is not None and whole.high is not None and whole.low < whole.high:
        text += f" ({units.clock(whole.low)} to {units.clock(whole.high)})"
    money = diagnosis.cost
    if money is not None:
        per_s = money.price.per_hour * money.hosts / 3600
        costs = (dollars(one * per_s) for one in (whole.seconds_now, whole.seconds_after))
        text += f", {' → '.join(costs)}"
    return text


def _configured(length: Length) -> str:
    may = f"; {length.open}" if length.open else ""
    others = ""
    if length.others:
        others = f" Not counted: {units.count(length.others, 'other place')} that may train."
    return f"As it is configured: {length.text}{may}.{others}"


def _basis(whole: Training) -> str:
    if whole.basis == "whole runs":
        runs = ", ".join(units.clock(one) for one in whole.runs)
        return f"From plain runs of the whole script, without trainperf in it: {runs}."
    return f"{LEDGER} {whole.reason[0].upper()}{whole.reason[1:]}." if whole.reason else LEDGER


def _ledger(whole: Training, now_s: float, page: Page) -> None:
    """Write what the training consists of, and how long it takes in all."""
    rows: list[list[Words | str]] = []
    for item in whole.items:
        now = "" if item.part == "once" else units.clock(item.now_s)
        after = "" if item.after_s is None else units.clock(item.after_s)
        rows.append([item.name, "" if item.count == 1 else f"{item.count:,}", now, after])
    figure = "" if whole.seconds_after is None else units.clock(whole.seconds_after)
    if whole.low is not None and whole.high is not None and whole.low < whole.high:
        figure += f" ({units.clock(whole.low)} to {units.clock(whole.high)})"
    rows.append([say("in all", STRONG), "", units.clock(now_s), figure])
    page.table(rows, header=("", "times", "as it is", "changed"), right=(1, 2, 3), elastic=(0,))


def outside(diagnosis: Diagnosis, page: Page) -> None:
    """Print what the script repeats is made of, where its steps are not all of it."""
    found = shown(diagnosis)
    if found is None:
        return
    page.heading(OUTSIDE)
    share = units.share(found.training_s / found.seconds)
    least = "" if found.whole else "at least "
    page.prose(
        f"{TURNS[found.turn]}: {least}{units.seconds(found.seconds)}. The steps of the training "
        f"are {share} of it; what is said of a step is said of that part.",
        indent=2,
    )
    many = f"{found.steps:,}" if found.turn != "step" else ""
    rows = [["training steps", "", "", many, units.seconds(found.training_s), share]]
    for spent in found.spent:
        calls = "" if spent.calls is None else units.number(spent.calls)
        where = "" if spent.where is None else place(spent.where, diagnosis.cwd)
        taken = [units.seconds(spent.seconds), units.share(spent.share)]
        rows.append([SPENT_ON[spent.what], spent.name, where, calls, *taken])
    page.table(rows, header=HEADER, right=(3, 4, 5), elastic=(1, 2))


def shown(diagnosis: Diagnosis) -> Outside | None:
    """What is worth a table; of an epoch only where more is known than its parts."""
    found = known(diagnosis.evidence.outside_)
    if found is None or found.share < _MATTERS:
        return None
    if found.turn == "epoch" and not any(spent.name for spent in found.spent):
        return None
    return found


def _around(diagnosis: Diagnosis) -> bool:
    found = known(diagnosis.evidence.outside_)
    return found is not None and found.share >= AROUND


SECTIONS = (
    Section("outside", STEP + 10, outside, outside, _around),
    Section("training", CHANGES + 40, training, side="training"),
)

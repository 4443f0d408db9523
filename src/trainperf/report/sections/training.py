"""The whole training as configured, now and with the changes; where the run's time goes."""

from __future__ import annotations

from trainperf.model import Diagnosis, Outside, Training, known
from trainperf.model import words as units
from trainperf.model.training import SPENT_ON, TURNS
from trainperf.report.document import CHANGES, END, STEP, STRONG, Page, Section, Words, given, say
from trainperf.report.plain import place

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


def training(diagnosis: Diagnosis, page: Page) -> None:
    """Print the training's length, its seconds now and after, and what they consist of."""
    whole = diagnosis.training
    if whole is None:
        return
    page.heading(HEADING)
    if whole.seconds_now is None:
        page.prose(f"How long it takes is not known: {whole.reason.rstrip('.')}.", indent=2)
        return
    if (length := whole.configured) is not None:
        may = f"; {length.open}" if length.open else ""
        others = ""
        if length.others:
            others = f" Not counted: {units.count(length.others, 'other place')} that may train."
        page.prose(f"As it is configured: {length.text}{may}.{others}", indent=2)
    if whole.basis == "whole runs":
        runs = ", ".join(units.clock(run_s) for run_s in whole.runs)
        how = f"From plain runs of the whole script, without trainperf in it: {runs}."
        page.prose(how, indent=2)
    else:
        why = f" {whole.reason[0].upper()}{whole.reason[1:]}." if whole.reason else ""
        page.prose(f"{LEDGER}{why}", indent=2)
    rows: list[list[Words | str]] = []
    for item in whole.items if whole.basis == "ledger" else ():
        now = "" if item.part == "once" else units.clock(item.now_s)
        after, times = given(units.clock, item.after_s), f"{item.count:,}"
        rows.append([item.name, "" if item.count == 1 else times, now, after])
    after = given(units.clock, whole.seconds_after) + _interval(whole)
    rows.append([say("in all", STRONG), "", units.clock(whole.seconds_now), after])
    page.table(rows, header=("", "times", "as it is", "changed"), right=(1, 2, 3), elastic=(0,))


def _interval(whole: Training) -> str:
    if whole.low is not None and whole.high is not None and whole.low < whole.high:
        return f" ({units.clock(whole.low)} to {units.clock(whole.high)})"
    return ""


def change(diagnosis: Diagnosis) -> str:
    """Say the whole training before and after the kept changes, "" where that is not known.

    Only whole runs have an interval: a ledger is off by more than its steps vary.
    """
    whole = diagnosis.training
    if whole is None or whole.seconds_now is None or whole.seconds_after is None:
        return ""
    text = f"{units.clock(whole.seconds_now)} → {units.clock(whole.seconds_after)}"
    text = f"about {text}" if whole.basis == "ledger" else text + _interval(whole)
    money = diagnosis.cost
    if money is not None:
        per_s = money.price.per_hour * money.hosts / 3600
        costs = (dollars(one * per_s) for one in (whole.seconds_now, whole.seconds_after))
        text += f", {' → '.join(costs)}"
    return text


def outside(diagnosis: Diagnosis, page: Page) -> None:
    """Print what the script repeats is made of, where its steps are not all of it."""
    found = shown(diagnosis)
    if found is None:
        return
    page.heading(OUTSIDE)
    share = units.share(found.training_s / found.seconds)
    least = "" if found.whole else "at least "
    page.prose(f"{TURNS[found.turn]}: {least}{units.seconds(found.seconds)}.", 2)
    many = f"{found.steps:,}" if found.turn != "step" else ""
    rows = [["training steps", "", "", many, units.seconds(found.training_s), share]]
    for spent in found.spent:
        calls = "" if spent.calls is None else units.number(spent.calls)
        where, share = place(spent.where, diagnosis.cwd), units.share(spent.share)
        taken = units.seconds(spent.seconds)
        rows.append([SPENT_ON[spent.what], spent.name, where, calls, taken, share])
    header = ("spent on", "in", "where", "calls", "time", "share")
    page.table(rows, header=header, right=(3, 4, 5), elastic=(1, 2))


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


def dollars(value: float) -> str:
    """Write US dollars: "$1.21", "$0.0084", "$1,240"; to two digits at least."""
    if value >= 1000:
        return f"${value:,.0f}"
    if value >= 0.995 or value == 0:
        return f"${value:.2f}"
    return f"${units.number(value, 2)}"


def cost(diagnosis: Diagnosis, page: Page) -> None:
    """Print the price, and what an epoch and a million samples cost, before and after."""
    known = diagnosis.cost
    if known is None:
        return
    each = "" if known.hosts == 1 else f" for each of {known.hosts} hosts"
    text = f"{dollars(known.price.per_hour)} an hour{each} ({known.price.source})"
    parts = [
        f"{what} {dollars(before)}" + ("" if after is None else f" → {dollars(after)}")
        for what, before, after in (
            ("an epoch", known.epoch_before, known.epoch_after),
            ("a million samples", known.million_samples_before, known.million_samples_after),
        )
        if before is not None
    ]
    page.gap()
    whole = f"{text}: {', '.join(parts)}." if parts else f"{text}."
    page.prose(f"Cost: {whole}")


SECTIONS = (
    Section("outside", STEP + 10, outside, _around),
    Section("training", CHANGES + 40, training, side="training"),
    Section("money", END + 50, cost, True, side="machine"),
)

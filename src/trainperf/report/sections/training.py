"""The whole training as configured, now and with the changes; where the run's time goes."""

from __future__ import annotations

from trainperf.model import Diagnosis, Item, Length, Outside, Training, known
from trainperf.model import words as units
from trainperf.model.outside import SPENT_ON, TURNS
from trainperf.report.document import CHANGES, DATA, GOOD, STEP, Page, Section, Words
from trainperf.report.plain import place
from trainperf.report.sections.money import dollars

HEADING = "The whole training"

LEDGER = (
    "Start-up, steps and what stands between them, each as it was measured, times how often it "
    "comes."
)
END = "The end of the process is reckoned from one garbage collection, which it consists of mostly."
SPREAD = "The interval is that of the speed-up, not of the sum."
TAIL = "What the script does after its last step is not in it."

_MATTERS = 0.05
"""Share of a turn from which what is no training step is worth a table."""

_TURN_HEADING = "Where the run's time goes"

HEADER = ("spent on", "in", "where", "calls", "time", "share")


def training(diagnosis: Diagnosis, page: Page) -> None:
    """Print the training's length, its seconds now and after, and the ledger behind them."""
    whole = diagnosis.training
    if whole is None:
        return
    if whole.seconds_now is None:
        page.heading(HEADING)
        page.prose(f"How long it takes is not known: {whole.reason.rstrip('.')}.", indent=2)
        return
    page.heading(HEADING)
    if whole.configured is not None:
        page.prose(_configured(whole.configured), indent=2)
    _bars(whole, _with(diagnosis), page)
    page.prose(_basis(whole), indent=2)
    _ledger(whole, page)


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
    elif whole.low is not None and whole.high is not None:
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
        many = "another place" if length.others == 1 else f"{length.others} other places"
        others = f" The script has {many} that may train, not counted here."
    return f"As it is configured: {length.text}{may}.{others}"


def _with(diagnosis: Diagnosis) -> str:
    stacked = () if diagnosis.stack is None else diagnosis.stack.fixes
    one = len({*stacked, *(trial.fix for trial in diagnosis.trials if trial.kept)}) == 1
    return "with the change" if one else "with the changes"


def _bars(whole: Training, changed: str, page: Page) -> None:
    rows: list[list[Words | str]] = [["the script as it is", units.clock(whole.seconds_now or 0.0)]]
    lengths: list[tuple[float, str] | None] = [(1.0, DATA)]
    if whole.seconds_after is not None and whole.seconds_now:
        figure = units.clock(whole.seconds_after)
        if whole.low is not None and whole.high is not None:
            figure += f" ({units.clock(whole.low)} to {units.clock(whole.high)})"
        rows.append([changed, figure])
        lengths.append((min(1.0, whole.seconds_after / whole.seconds_now), GOOD))
    page.table(rows, elastic=(0,), lengths=lengths)


def _basis(whole: Training) -> str:
    if whole.basis == "whole runs":
        runs = ", ".join(units.clock(one) for one in whole.runs)
        turns = "as it is, changed" + (", changed, as it is" if len(whole.runs) > 2 else "")
        turns = "as it is" if whole.seconds_after is None else turns
        return f"From plain runs of the whole script, without trainperf in it: {turns}: {runs}."
    ended = any(one.part == "end" for one in whole.items)
    spread = [SPREAD] if whole.seconds_after is not None else []
    ledger = " ".join([LEDGER, *([END] if ended else []), TAIL, *spread])
    if not whole.reason:
        return ledger
    alone = "" if whole.seconds_after is None else "No plain runs of the script confirm it: "
    return f"{ledger} {alone}{whole.reason}."


def _ledger(whole: Training, page: Page) -> None:
    if not whole.items:
        return
    after = any(one.after_s is not None for one in whole.items)
    rows: list[list[Words | str]] = [_row(one, after) for one in whole.items]
    header = ("", "times", "now", "after") if after else ("", "times", "now")
    page.gap()
    page.table(rows, header=header, right=(1, 2, 3) if after else (1, 2), elastic=(0,))


def _row(one: Item, after: bool) -> list[Words | str]:
    now = "" if one.part == "once" else units.duration(one.now_s)
    row: list[Words | str] = [one.name, "" if one.count == 1 else f"{one.count:,}", now]
    if after:
        row.append("" if one.after_s is None else units.duration(one.after_s))
    return row


def outside(diagnosis: Diagnosis, page: Page) -> None:
    """Print what a turn of the script is made of, where its steps are not all of it."""
    turn = shown(diagnosis)
    if turn is None:
        return
    page.heading(_TURN_HEADING)
    page.prose(_said(turn), indent=2)
    many = f"{turn.steps:,}" if turn.turn != "step" else ""
    share = units.share(turn.training_s / turn.seconds)
    rows = [["training steps", "", "", many, units.seconds(turn.training_s), share]]
    for one in turn.spent:
        calls = "" if one.calls is None else units.number(one.calls)
        where = "" if one.where is None else place(one.where, diagnosis.cwd)
        taken = [units.seconds(one.seconds), units.share(one.share)]
        rows.append([SPENT_ON[one.what], one.name, where, calls, *taken])
    page.table(rows, header=HEADER, right=(3, 4, 5), elastic=(1, 2))


def shown(diagnosis: Diagnosis) -> Outside | None:
    """The turn that is worth a table; of an epoch only where more is known than its parts."""
    turn = known(diagnosis.evidence.outside_)
    if turn is None or turn.share < _MATTERS:
        return None
    if turn.turn == "epoch" and not any(one.name for one in turn.spent):
        return None
    return turn


def _said(turn: Outside) -> str:
    """A turn in a sentence: how long it takes, and what of it is training."""
    whole = "" if turn.whole else "at least "
    seen = f", seen {turn.turns} times" if turn.turns > 1 else ""
    left = "" if turn.whole else ": it was not over when the run was stopped"
    return (
        f"{TURNS[turn.turn]}: {whole}{units.seconds(turn.seconds)}{seen}{left}. The steps of the "
        f"training are {units.share(turn.training_s / turn.seconds)} of it; what is said of a "
        "step is said of that part."
    )


AROUND = 0.2
"""Share of the run outside its steps from which a short report says where it goes."""


def _around(diagnosis: Diagnosis) -> bool:
    turn = known(diagnosis.evidence.outside_)
    return turn is not None and turn.share >= AROUND


SECTIONS = (
    Section("outside", STEP + 10, outside, outside, _around),
    Section("training", CHANGES + 40, training, side="training"),
)

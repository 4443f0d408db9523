"""Where the run's time goes: training steps, and what the script does between them."""

from __future__ import annotations

from trainperf.model import Diagnosis, Outside, Spent
from trainperf.model import words as units
from trainperf.model.outside import SPENT_ON, TURNS
from trainperf.report.document import Page, Words
from trainperf.report.places import place

MATTERS = 0.05
"""Share of a turn from which what is no training step is worth a table."""

HEADING = "Where the run's time goes"

HEADER = ("spent on", "in", "where", "calls", "time", "share")

Row = tuple[str, str, str, str, float, float]
"""Kind of work, name, place, calls, seconds, share of a turn."""


def outside(diagnosis: Diagnosis, page: Page) -> None:
    """Print what a turn of the script is made of, where its steps are not all of it."""
    turn = shown(diagnosis)
    if turn is None:
        return
    page.heading(HEADING)
    page.prose(said(turn), indent=2)
    lines: list[list[Words | str]] = [
        [what, name, where, calls, units.seconds(seconds), units.share(share)]
        for what, name, where, calls, seconds, share in rows(turn, diagnosis.cwd)
    ]
    page.table(lines, header=HEADER, right=(3, 4, 5), elastic=(1, 2))


def shown(diagnosis: Diagnosis) -> Outside | None:
    """The turn that is worth a table; of an epoch only where more is known than its parts."""
    turn = diagnosis.outside
    if turn is None or turn.share < MATTERS:
        return None
    if turn.turn == "epoch" and not any(one.name for one in turn.spent):
        return None
    return turn


def said(turn: Outside) -> str:
    """A turn in a sentence: how long it takes, and what of it is training."""
    whole = "" if turn.whole else "at least "
    seen = f", seen {turn.turns} times" if turn.turns > 1 else ""
    left = "" if turn.whole else ": it was not over when the run was stopped"
    return (
        f"{TURNS[turn.turn]}: {whole}{units.seconds(turn.seconds)}{seen}{left}. The steps of the "
        f"training are {units.share(turn.training_s / turn.seconds)} of it; what is said of a "
        "step is said of that part."
    )


def rows(turn: Outside, cwd: str) -> list[Row]:
    """The parts of a turn: its steps first, then the dearest."""
    many = f"{turn.steps:,}" if turn.turn != "step" else ""
    training = turn.training_s / turn.seconds
    steps: Row = ("training steps", "", "", many, turn.training_s, training)
    return [steps, *(_row(one, cwd) for one in turn.spent)]


def _row(one: Spent, cwd: str) -> Row:
    calls = "" if one.calls is None else units.number(one.calls)
    where = "" if one.where is None else place(one.where, cwd)
    return SPENT_ON[one.what], one.name, where, calls, one.seconds, one.share

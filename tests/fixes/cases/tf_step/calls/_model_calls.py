"""What cases of `_model_calls` are made of."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import SITE
from trainperf.model import InPlace, Outside, Site, Spent

CALL = Site("train.py", 27, "main", col=18, end_line=27, end_col=49)


def between_fits(name: str) -> Outside:
    """A case: a script that calls `name` many times between two of `fit`."""
    called = Spent("prediction", 12.0, 0.92, name, calls=200, where=CALL, rows=1)
    return Outside("fit", 13.0, 32, 0.6, (called,), loop=SITE)


def timed_in_place(turn: Outside, ratio: float = 37.5, apart: float = 0.0) -> Outside:
    """A case: what could stand for the calls of a turn was timed, so many times as quick."""
    measured = InPlace(0.06, 0.06 / ratio, ratio, 0.98 * ratio, 1.02 * ratio, 12, apart)
    (called,) = turn.spent
    return replace(turn, spent=(replace(called, instead=measured),))


def in_steps(name: str) -> Outside:
    """A case: a script that calls `name` once in each step."""
    called = Spent("prediction", 0.06, 0.6, name, calls=1, where=CALL)
    return Outside("step", 0.1, 1, 0.04, (called,))

"""Now and then a loop that is seen by its updates does more than its steps."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import pairwise

from trainperf.evidence.events import Observed
from trainperf.model import Outside, Spent

LONG = 3.0
"""A step that takes so many times as long as others holds more than a step."""
FEWEST = 2
"""One such step may be the machine's doing."""
ALIKE = 0.3
"""Pauses by plan take as long, and stay away as long, each time: to this share."""


def pauses(observed: Observed, real: float) -> Outside | None:
    """The steps from one pause to the next, of a loop that is seen by its updates only.

    `real` is a step in seconds. Pauses are what makes single steps much longer than the others,
    by about as much and after about as many steps each time: an evaluation at every so many
    steps, the end of an epoch. None where there are none, or they come without a plan.
    """
    if observed.start["kind"] not in ("update", "call"):
        return None
    took = [one["t"] - one["s"] for one in observed.of("step") if one["p"] != "profile"]
    if not took:
        return None
    usual = statistics.median(took)
    long = [number for number, seconds in enumerate(took) if seconds > LONG * usual]
    more = [took[number] - usual for number in long]
    apart = [second - first for first, second in pairwise(long)]
    if len(long) < FEWEST or not (_alike(more) and _alike(apart)):
        return None
    every = round(statistics.median(apart) * observed.steps_per_call)
    pause, training = statistics.median(more), every * real
    seconds = training + pause
    spent = (Spent("other", pause, pause / seconds),)
    return Outside("pause", seconds, every, training, spent, turns=len(long) - 1)


def _alike(values: Sequence[float]) -> bool:
    middle = statistics.median(values)
    return all(abs(one - middle) <= ALIKE * middle for one in values)

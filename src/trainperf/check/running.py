"""Run a script until a check is decided: once where it passes, several times before it fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from trainperf.check.repeats import boot_name, repeat
from trainperf.check.values import Repeat, Speed
from trainperf.model import Diagnosis, Ending

BASELINE_RUNS = 3
"""Runs of a baseline, where they agree; else `MOST_RUNS`."""

AGREE = 0.03
"""How far the slowest run of a baseline may lie above the fastest: twice what two processes of
one script differ by."""

ALARM_RUNS = 3
"""Runs before a check may fail, as far as the budget goes."""

MOST_RUNS = 5
"""Runs at most: what five do not settle, ten would not on that machine."""

ENDS_ALL = (Ending.FAILED, Ending.SIGNALLED, Ending.STALLED, Ending.INTERRUPTED)
"""Endings after which there is nothing to compare, whatever was timed before."""

Observe = Callable[[], Diagnosis]
"""Runs the script once and says what was seen."""


@dataclass(frozen=True)
class Runs:
    """The runs of a check: the whole diagnosis, every run, and the machine's speed beside each.

    `ended` is the diagnosis of a run in which no step could be timed, which ends it all.
    """

    diagnosis: Diagnosis
    repeats: tuple[Repeat, ...]
    ended: Diagnosis | None = None


@dataclass(frozen=True)
class Means:
    """How runs are made: the effects, and the moment by which the last must have begun."""

    observe: Observe
    speed: Callable[[], Speed | None]
    until: float
    clock: Callable[[], float] = time.monotonic


def run(means: Means, at_least: int, settled: Callable[[Runs], bool]) -> Runs:
    """Run the script until `settled`, `at_least` times; stops when the time is over.

    No run begins that would not end in time if it took as long as the one before it.
    """
    runs: Runs | None = None
    beside = means.speed()
    while True:
        began = means.clock()
        diagnosis = means.observe()
        if diagnosis.times.real_s is None or diagnosis.ending in ENDS_ALL:
            return Runs(diagnosis, () if runs is None else runs.repeats, diagnosis)
        after = means.speed()
        one = repeat(diagnosis, _faster(beside, after), boot_name())
        beside = after
        runs = (
            Runs(diagnosis, (one,))
            if runs is None
            else replace(runs, repeats=(*runs.repeats, one), diagnosis=_kept(runs, one, diagnosis))
        )
        many = len(runs.repeats)
        if many >= MOST_RUNS or (many >= at_least and settled(runs)):
            return runs
        if 2 * means.clock() - began > means.until:
            return runs


def agree(runs: Runs) -> bool:
    """Whether the runs of a baseline are enough: the slowest is about as fast as the fastest."""
    times = [one.fastest_s for one in runs.repeats]
    return max(times) <= min(times) * (1 + AGREE)


def _kept(runs: Runs, one: Repeat, diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis of the least disturbed run stands for all."""
    fastest = min(each.fastest_s for each in runs.repeats)
    return diagnosis if one.fastest_s < fastest else runs.diagnosis


def _faster(a: Speed | None, b: Speed | None) -> Speed | None:
    """The machine at its best beside a run."""
    if a is None or b is None:
        return a or b
    return Speed(min(a.one_s, b.one_s), min(a.all_s, b.all_s))

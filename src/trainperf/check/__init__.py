"""Whether a script trains as fast as its baseline says: for every change, in CI.

`running` makes the runs, `judging` decides about their times, `answering` says it.
"""

from __future__ import annotations

from trainperf.check.answering import (
    answer,
    compared,
    load,
    repeats_of,
    reported,
    save,
    settled,
    shortcomings,
)
from trainperf.check.judging import judge, noise
from trainperf.check.running import BASELINE_RUNS, Means, Runs, agree, repeat, run, speed
from trainperf.check.values import Baseline, Checked, Criteria, Judged, Repeat, Speed

__all__ = [
    "BASELINE_RUNS",
    "Baseline",
    "Checked",
    "Criteria",
    "Judged",
    "Means",
    "Repeat",
    "Runs",
    "Speed",
    "agree",
    "answer",
    "compared",
    "judge",
    "load",
    "noise",
    "repeat",
    "repeats_of",
    "reported",
    "run",
    "save",
    "settled",
    "shortcomings",
    "speed",
]

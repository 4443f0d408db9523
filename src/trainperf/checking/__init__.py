"""Whether a script trains as fast as its baseline says: for every change, in CI.

`running` makes the runs, `judging` decides about their times, `answering` says it.
"""

from __future__ import annotations

from trainperf.checking.answering import answer, settled, shortcomings
from trainperf.checking.baseline import load, repeats_of, save
from trainperf.checking.calibration import speed
from trainperf.checking.judging import judge, noise
from trainperf.checking.repeats import repeat
from trainperf.checking.reported import compared, reported
from trainperf.checking.running import BASELINE_RUNS, Means, Runs, agree, run
from trainperf.checking.values import Baseline, Checked, Judged, Repeat, Speed, Wanted

__all__ = [
    "BASELINE_RUNS",
    "Baseline",
    "Checked",
    "Judged",
    "Means",
    "Repeat",
    "Runs",
    "Speed",
    "Wanted",
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

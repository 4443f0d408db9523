"""One long run of the script as it is, to see what its late steps have that early ones have not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from trainperf.evidence.events import NoLoop, choose
from trainperf.evidence.over_time import over_time
from trainperf.model import Event, Evidence, Missing, OverTime, Recording, Run
from trainperf.run.launch import launch

STARTS_S = 60.0
"""Seconds beyond the soak for the start of the script, or twice what it took before."""


def with_soak(
    recording: Recording,
    evidence: Evidence,
    soak_s: float,
    folder: Path,
    interrupted: Callable[[], bool],
    on_event: Callable[[Event], None],
) -> Evidence:
    """The evidence with what a run of `soak_s` seconds of steps shows over time."""
    starts_s = 0.0 if evidence.startup is None else 2 * evidence.startup.to_first_step_s
    long = replace(
        recording.run,
        soak_s=soak_s,
        steps=None,
        budget_s=soak_s + max(STARTS_S, starts_s),
        began=None,
        trials=False,
        trace=False,
    )
    text = "one long run: late steps against early ones"
    on_event({"e": "trial", "text": text, "fraction": None, "expected_s": soak_s + starts_s})
    found = _soaked(long, folder / "soak", interrupted)
    facts = {**evidence.facts, "soak_s": soak_s}
    return replace(evidence, over_time_=found, facts=facts)


def _soaked(run: Run, folder: Path, interrupted: Callable[[], bool]) -> OverTime | Missing:
    try:
        recording = launch(run, folder, interrupted=interrupted)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    try:
        return over_time(choose(recording), recording.samples)
    except NoLoop:
        return Missing(f"no training loop was seen in it: {recording.ending.value}")

"""The bench that legs are compared on: a run, a folder, costs and room, for both ways to do it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trainperf.model import Event, Run
from trainperf.run.spawn import run_file_of
from trainperf.run.stopping import LEG, Guard
from trainperf.trial.budget import Costs
from trainperf.trial.legs.leg import Leg
from trainperf.trial.outcome import Measured, Start

CACHES = f"{LEG}caches"
"""The folder of what legs compile, beside theirs: it goes when they do."""
Say = Callable[[str, float | None], None]
"""Tells the user what is going on, and which share of it is done."""
Keep = Callable[[Sequence[Measured]], float]
"""Seconds to be kept of the time for what comes after, from what was measured until now."""


@dataclass(frozen=True)
class Bench:
    """The means of trials: the unchanged leg's run, a folder, the costs, the room."""

    run: Run
    folder: Path
    costs: Costs
    legs: int
    say: Say


def guarded(bench: Bench) -> Guard:
    """A guard over the legs to come, and over what they compile."""
    guard = Guard()
    guard.watch(run_file_of(bench.folder / CACHES))
    return guard


def nothing(measured: Sequence[Measured]) -> float:
    """Keep no time for anything else."""
    return 0.0


def start_of(leg: Leg) -> Start | None:
    """Seconds of a leg from its start to its first update, and to its slices, without waiting."""
    first = next((one for one in leg.trained if one["e"] == "first_update"), None)
    if first is None:
        return None
    start = Start(_since(leg, first), first.get("cpu"))
    ready = next((one for one in leg.trained if one["e"] == "leg"), None)
    if ready is None:
        return start
    steps = float(ready["steps"]) * leg.work_per_step
    return replace(start, ready_s=_since(leg, ready), steps=steps, cpu_s=ready["cpu"])


def _since(leg: Leg, event: Event) -> float:
    return float(event["t"]) - leg.started_s - leg.waited_s

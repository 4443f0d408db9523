"""Questions of the input fixes to a pipeline: which stages cost, on how many cores, named how."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from trainperf.errors import NotMeasured
from trainperf.fixes.common.words import SMALLEST_GAIN, at
from trainperf.model import Evidence, Measure, Site, Stage, is_taken
from trainperf.model.evidence import LEAST_INPUT

REAL_SHARE = 0.10
"""A stage below this share of the pipeline's time is not worth repairing: the same tenth
that separates input-bound from not (MLPerf Storage)."""


IDLE_CORES = 0.5
"""A pipeline that keeps less than half a core busy waits for storage, not for the CPU: then
more calls at once help beyond the number of cores."""


def costly(evidence: Evidence, suits: Callable[[Stage], bool]) -> tuple[Stage, ...]:
    """Return the user's stages that suit and take a real share of the input, dearest first.

    Empty unless the loop is input-bound. Raises `NotMeasured` where the three times
    or the stages were not taken; a single stage that was not timed is left out.
    """
    if not evidence.input_bound:
        return ()
    found = [
        stage
        for stage in evidence.stages
        if stage.by_user
        and is_taken(stage.seconds_per_step_)
        and suits(stage)
        and share(evidence, stage) >= REAL_SHARE
    ]
    return tuple(sorted(found, key=lambda stage: -stage.seconds_per_step))


def to_try(evidence: Evidence, suits: Callable[[Stage], bool]) -> tuple[Stage, ...]:
    """Return the user's stages that suit and may be what the loop waits for, dearest first.

    For what is to be tried: the times are taken at the favourable end of their noise, and what
    was not timed rules nothing out. Raises `NotMeasured` where no stages were seen.
    """
    if input_at_most(evidence) <= 1 + SMALLEST_GAIN:
        return ()
    found = [
        stage
        for stage in evidence.stages
        if stage.by_user
        and stage.where is not None
        and suits(stage)
        and (not is_taken(stage.seconds_per_step_) or _share_of_work(evidence, stage) >= REAL_SHARE)
    ]
    return tuple(sorted(found, key=_unknown_first))


def _share_of_work(evidence: Evidence, stage: Stage) -> float:
    """The share that `stage` has of what the stages make: a prefetch makes nothing itself.

    Where it comes out dear, a neighbour had the cores while it was timed.
    """
    made = [one for one in evidence.stages if one.op != "prefetch"]
    whole = sum(one.seconds_per_step for one in made if is_taken(one.seconds_per_step_))
    return stage.seconds_per_step / whole if whole > 0 else 0.0


def _unknown_first(stage: Stage) -> float:
    return -stage.seconds_per_step if is_taken(stage.seconds_per_step_) else -math.inf


def input_at_most(evidence: Evidence) -> float:
    """Return the most that free input gives, within the noise; infinity if not known.

    1 where what a step loses is known not to be lost to its input.
    """
    real, resident = evidence.times.real_, evidence.times.resident_
    if not isinstance(real, Measure) or not isinstance(resident, Measure):
        return math.inf
    times = evidence.times.favourable()
    lost = times.real - times.resident
    fed = evidence.times.input_
    if isinstance(fed, Measure) and (fed.high or fed.seconds) < LEAST_INPUT * lost:
        return 1.0
    return times.real / max(times.resident, 1e-9)


def known(most: float) -> float | None:
    """Return a bound of what is to be tried: None for infinity."""
    return most if math.isfinite(most) else None


def pipeline_seconds(evidence: Evidence) -> float:
    """Return what the whole pipeline needs for one step, by the timing of its stages.

    The stages' own sum, so that a stage is never more than the whole; the input time
    stands in where none was timed. Raises `NotMeasured` where that is missing too.
    """
    timed = [stage.cumulative for stage in evidence.stages if is_taken(stage.cumulative_)]
    own = [stage.seconds_per_step for stage in evidence.stages if is_taken(stage.seconds_per_step_)]
    if not timed or not own:
        return evidence.times.input
    return max(max(timed), sum(own))


def share(evidence: Evidence, stage: Stage) -> float:
    """Return the share of the pipeline's time that `stage` adds; raises `NotMeasured`."""
    whole = pipeline_seconds(evidence)
    return stage.seconds_per_step / whole if whole > 0 else 0.0


def cores(evidence: Evidence) -> int:
    """Return the whole cores the process may use (affinity and cgroup quota counted)."""
    return int(evidence.machine.cores)


def waits(evidence: Evidence) -> bool:
    """Return whether the input alone keeps hardly a core busy: it waits for storage, say."""
    try:
        busy = evidence.phase("input").cpu_cores
    except NotMeasured:
        return False
    return busy is not None and busy < IDLE_CORES


def saved_on(width: float, seconds: float) -> float:
    """Return what `seconds` of serial work save when spread over `width` at best."""
    return seconds * (1 - 1 / max(1.0, width))


def upper(evidence: Evidence, basis: str) -> str:
    """Say what the bound rests on; on a CPU-only run, that training takes cores too."""
    if evidence.device.kind == "CPU":
        return f"{basis}; at most, as training runs on the same cores"
    return basis


def sites(stages: Iterable[Stage]) -> tuple[Site, ...]:
    """Return where the stages were built, each place once, in source order of the stages."""
    return tuple(dict.fromkeys(stage.where for stage in stages if stage.where is not None))


def label(stage: Stage) -> str:
    """Name a stage by the user's function in it, with its line: "`load` (train.py:14)"."""
    if stage.function is None or stage.function.name == "<lambda>":
        place = at(stage.where)
        name = f"the lambda in `{stage.op}`" if stage.function else f"`{stage.op}`"
    else:
        own = Site(stage.function.file, stage.function.line) if stage.function.line else stage.where
        place, name = at(own), f"`{stage.function.name}`"
    return f"{name} ({place})" if place else name


def opening(stage: Stage) -> str:
    """Name a stage at the start of a sentence."""
    name = label(stage)
    return name[0].upper() + name[1:]


def function_name(stage: Stage, otherwise: str) -> str:
    """Return the name of the stage's function for a snippet, or `otherwise`."""
    name = stage.function.name if stage.function else ""
    return name if name.isidentifier() else otherwise

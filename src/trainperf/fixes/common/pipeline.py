"""Questions of the input fixes to a pipeline: which stages cost, on how many cores, named how."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from trainperf.fixes.common.words import at, if_measured, measured_or, ms, percent, worth
from trainperf.model import Epoch, Evidence, Measure, Site, Stage, is_taken
from trainperf.model.evidence import LEAST_INPUT

REAL_SHARE = 0.10
"""A stage below this share of the pipeline's time is not worth repairing: the same tenth
that separates input-bound from not (MLPerf Storage)."""


IDLE_CORES = 0.5
"""A pipeline that keeps less than half a core busy waits for storage, not for the CPU: then
more calls at once help beyond the number of cores."""


def suitable(evidence: Evidence, suits: Callable[[Stage], bool]) -> tuple[Stage, ...]:
    """Return the user's stages that suit and may be what the loop waits for, dearest first.

    Those that take a real share of what the stages make; where none does, those that were not
    timed. Raises `NotMeasured` where no stages were seen.
    """
    own = [stage for stage in evidence.stages if stage.by_user and suits(stage)]
    timed = [stage for stage in own if is_taken(stage.seconds_per_step_)]
    dear = [stage for stage in timed if _share_of_work(evidence, stage) >= REAL_SHARE]
    dear.sort(key=lambda stage: -stage.seconds_per_step)
    return tuple(dear) or tuple(stage for stage in own if stage not in timed)


def is_dear(evidence: Evidence, stage: Stage) -> bool:
    """Whether a stage is known to take a real share of its pipeline's time."""
    return measured_or(False, lambda: share(evidence, stage) >= REAL_SHARE)


def _share_of_work(evidence: Evidence, stage: Stage) -> float:
    """The share that `stage` has of what the stages make: a prefetch makes nothing itself.

    Where it comes out dear, a neighbour had the cores while it was timed.
    """
    makers = [maker for maker in evidence.stages if maker.op != "prefetch"]
    whole = sum(maker.seconds_per_step for maker in makers if is_taken(maker.seconds_per_step_))
    return stage.seconds_per_step / whole if whole > 0 else 0.0


def seconds_of(stages: Iterable[Stage]) -> float:
    """Return what stages take of a step together; raises `NotMeasured` where one was not timed."""
    return sum(stage.seconds_per_step for stage in stages)


def takes(evidence: Evidence, stages: Sequence[Stage]) -> str:
    """Say what the first of some stages takes of its pipeline, behind it, and what all take.

    "" where they were not timed.
    """
    return if_measured(
        lambda: (
            f": {ms(stages[0].seconds_per_step)} of the {ms(pipeline_seconds(evidence))} that the "
            "pipeline needs for a step"
            + (f", {ms(seconds_of(stages))} with others like it" if len(stages) > 1 else "")
        )
    )


def worker_said(evidence: Evidence) -> str:
    """Say, as a sentence that begins with a space, where threads that feed the model mostly are."""
    feeding = [function for function in evidence.functions if function.thread == "worker"]
    if not feeding:
        return ""
    most = max(feeding, key=lambda function: function.share)
    place = at(Site(most.file, most.line))
    return f" Its thread was found in `{most.name}` ({place}) in {percent(most.share)} of samples."


def pays_later(evidence: Evidence, later: Callable[[], float]) -> bool:
    """Whether a speed-up that begins with the second epoch is worth a word in all of them."""
    epochs = evidence.loop.epochs
    return measured_or(
        False, lambda: epochs is None or worth(evidence, epochs / (1 + (epochs - 1) / later()))
    )


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


def restarted_epoch(evidence: Evidence) -> Epoch | None:
    """Return the epoch that a trial of what begins each has to hold whole.

    None where its length, or what the input takes to start again, is not known.
    """
    between, steps = evidence.between_epochs, evidence.loop.epoch_steps
    if steps is None or between is None or between.restart_s is None:
        return None
    besides = max(0.0, between.seconds - between.restart_s)
    whole = steps * evidence.times.real + between.seconds
    return Epoch(steps, whole, besides)


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
    busy = measured_or(None, lambda: evidence.phase("input").cpu_cores)
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

"""What a report says beside findings: times, stages, what was not measured. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from trainperf.fixes._words import ms, percent
from trainperf.model import (
    Ending,
    Evidence,
    Framework,
    Measure,
    Missing,
    NotTaken,
    Recording,
    ReportedStage,
    ReportedTimes,
    Stage,
)

BUSY_NEIGHBOURS = 0.15
"""Cores others kept busy, as a share of those we may use, from which it is said."""


def times(evidence: Evidence) -> ReportedTimes:
    """The three times for the report, None where there is none."""
    taken = evidence.times
    real = taken.real_ if isinstance(taken.real_, Measure) else None
    samples = evidence.loop.batch_size
    measures = {"real": taken.real_, "resident": taken.resident_, "input": taken.input_}
    return ReportedTimes(
        real_s=_seconds(taken.real_),
        resident_s=_seconds(taken.resident_),
        input_s=_seconds(taken.input_),
        host_s=None if isinstance(taken.host_, Missing) else taken.host_,
        steps=real.steps if real else 0,
        samples_per_s=samples / real.seconds if real and samples else None,
        startup_s=evidence.startup.to_first_step_s if evidence.startup else None,
        noise=real.noise if real and real.low is not None else None,
        spread={
            name: measure.blocks
            for name, measure in measures.items()
            if isinstance(measure, Measure) and measure.blocks
        },
    )


def _seconds(measure: Measure | Missing) -> float | None:
    return measure.seconds if isinstance(measure, Measure) else None


def stages(evidence: Evidence) -> tuple[ReportedStage, ...]:
    """The stages of the pipeline with their share of its time."""
    if isinstance(evidence.stages_, Missing):
        return ()
    total = sum(
        stage.seconds_per_step
        for stage in evidence.stages_
        if not isinstance(stage.seconds_per_step_, Missing)
    )
    return tuple(_stage(stage, total) for stage in evidence.stages_)


def _stage(stage: Stage, total: float) -> ReportedStage:
    own = stage.seconds_per_step_
    seconds = None if isinstance(own, Missing) else own
    return ReportedStage(
        name=stage.op,
        where=stage.where,
        seconds_per_step=seconds,
        share=seconds / total if seconds is not None and total > 0 else None,
        function=stage.function,
        detail=", ".join(_details(stage)),
    )


def _details(stage: Stage) -> Iterator[str]:
    calls = stage.arguments.get("num_parallel_calls", "absent")
    if stage.python:
        yield "Python"
    elif calls is None and stage.parallelised_by_default:
        yield "run in parallel by tf.data"
    if calls is None and not stage.parallelised_by_default:
        yield "serial"
    elif isinstance(calls, int):
        yield "AUTOTUNE" if calls == -1 else f"{calls} calls in parallel"
    for name in ("batch_size", "buffer_size"):
        if isinstance(value := stage.arguments.get(name), int):
            yield f"{name.partition('_')[0]} {'AUTOTUNE' if value == -1 else value}"


def not_measured(recording: Recording, evidence: Evidence) -> tuple[NotTaken, ...]:
    """Everything that was not measured, each with its reason."""
    return tuple(_not_measured(recording, evidence))


def _not_measured(recording: Recording, evidence: Evidence) -> Iterator[NotTaken]:
    taken = evidence.times
    for what, value in (
        ("the step as it is", taken.real_),
        ("the step with free input", taken.resident_),
        ("the input alone", taken.input_),
        ("the stages of the input", evidence.stages_),
    ):
        if isinstance(value, Missing):
            yield NotTaken(what, value.reason)
    if not isinstance(evidence.stages_, Missing):
        for stage in evidence.stages_:
            if isinstance(stage.seconds_per_step_, Missing) and stage.by_user:
                yield NotTaken(f"the stage `{stage.op}`", stage.seconds_per_step_.reason)
    for name, probe in evidence.probes.items():
        if isinstance(probe, Missing):
            yield NotTaken(f"a probe of {name.replace('_', ' ')}", probe.reason)
    if not recording.gpus:
        yield NotTaken("GPU use", recording.gpu_reason or "no GPU was found")
    between = evidence.between_epochs
    if between is None or not between.epochs_seen:
        steps = evidence.loop.epoch_steps
        length = f"an epoch has {steps:,} steps; " if steps else ""
        yield NotTaken("the time between epochs", f"{length}none ended while it was observed")
    if evidence.device.count < 2 and evidence.loop.replicas < 2:
        yield NotTaken("gradient exchange", "the script trains on one device")


def notes(recording: Recording, evidence: Evidence) -> tuple[str, ...]:
    """What a reader should know about how far the numbers can be trusted."""
    return (*_notes(evidence), *run_notes(recording))


def _notes(evidence: Evidence) -> Iterator[str]:
    for use in evidence.use:
        if use.phase != "real" or use.cpu_cores is None or use.machine_cpu_cores is None:
            continue
        others = use.machine_cpu_cores - use.cpu_cores
        if others > max(0.3, BUSY_NEIGHBOURS * evidence.machine.cores):
            yield (
                f"other processes kept {others:.1f} of the machine's "
                f"{evidence.machine.visible_cores} cores busy meanwhile: expect times to vary"
            )
    startup = evidence.startup
    if startup is not None and startup.tracing_s and startup.tracing_s > 5:
        yield f"tracing the first step took {ms(startup.tracing_s)}, once"
    real = evidence.times.real_
    if isinstance(real, Measure) and not real.blocks:
        yield f"only {real.steps} steps could be timed, so the times are rough"
    elif isinstance(real, Measure) and real.noise > 0.10:
        yield f"the step time varied by {percent(real.noise)} between blocks of steps"
    stalls = sum(
        measure.stalls
        for measure in (real, evidence.times.resident_)
        if isinstance(measure, Measure)
    )
    if stalls:
        yield (
            f"{stalls} runs of steps took more than twice the usual time (the machine paused, or "
            f"something rare in the loop) and were left out of the times"
            if stalls > 1
            else "one run of steps took more than twice the usual time (the machine paused, or "
            "something rare in the loop) and was left out of the times"
        )
    loop = evidence.loop
    if isinstance(real, Measure) and loop.epochs and loop.epoch_steps and loop.kind == "fit":
        whole = loop.epochs * loop.epoch_steps
        if whole < real.steps:
            yield (
                f"this `fit` has {whole} steps in all and was continued to be timed; if the "
                f"script trains again after it, that was not looked at"
            )
    if evidence.loop.updates_per_step > 1:
        yield f"a step here makes {evidence.loop.updates_per_step} updates"


def run_notes(recording: Recording) -> tuple[str, ...]:
    """What went wrong in the observer itself, if anything did."""
    texts = [
        event["text"]
        for events in recording.events.values()
        for event in events
        if event["e"] == "note"
    ]
    if recording.sampling_note:
        texts.append(recording.sampling_note)
    return tuple(dict.fromkeys(texts))


def nothing_measured(recording: Recording, reason: str) -> tuple[NotTaken, ...]:
    """The one thing to say where there was no loop to measure."""
    if recording.ending in (Ending.FAILED, Ending.SIGNALLED):
        reason = "the script ended before a training loop began"
    return (NotTaken("the training step", reason),)


def framework_seen(recording: Recording) -> Framework:
    """The framework that was imported, if any."""
    for events in recording.events.values():
        for event in events:
            if event["e"] == "import":
                return Framework("tensorflow", event["version"])
    return Framework("", "")

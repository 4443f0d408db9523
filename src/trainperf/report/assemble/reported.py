"""Evidence as it is reported: times, parts of a step, stages, the job, the samples over time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trainperf.evidence.events import read_as
from trainperf.fixes.torch_step._lookers import call
from trainperf.model import (
    Event,
    Evidence,
    Exchange,
    Measure,
    Missing,
    Moment,
    Parallel,
    Rank,
    Recording,
    ReportedStage,
    ReportedTimes,
    Sample,
    Span,
    Stage,
    StepPart,
    SyncPoint,
    Timeline,
)
from trainperf.model.diagnosis import DeviceMemory
from trainperf.model.reported_parallel import (
    ReportedExchange,
    ReportedParallel,
    ReportedRank,
)
from trainperf.report.sections.parts import NAMES

MOMENTS = 240
"""Moments kept at most: about one for each three pixels of a page."""

START_UP = "start-up"

_OF_LOADERS = ("sampler", "dataset item", "collate", "inter-process copy", "pin")
"""The stages of a PyTorch `DataLoader`; that they are Python goes without saying."""


def times(evidence: Evidence) -> ReportedTimes:
    """The three times for the report, None where there is none."""
    taken = evidence.times
    real = taken.real_ if isinstance(taken.real_, Measure) else None
    loop = evidence.loop
    measures = {"real": taken.real_, "resident": taken.resident_, "input": taken.input_}
    return ReportedTimes(
        real_s=_seconds(taken.real_),
        resident_s=_seconds(taken.resident_),
        input_s=_seconds(taken.input_),
        host_s=_host(evidence),
        steps=real.steps if real else 0,
        samples_per_s=_per_s(loop.batch_size, real),
        startup_s=evidence.startup.to_first_step_s if evidence.startup else None,
        noise=real.noise if real and real.low is not None else None,
        spread={
            name: measure.blocks
            for name, measure in measures.items()
            if isinstance(measure, Measure) and measure.blocks
        },
        tokens_per_s=_per_s(loop.tokens, real),
        real_tokens_per_s=_per_s(loop.real_tokens, real),
    )


def _per_s(amount: float | None, real: Measure | None) -> float | None:
    return amount / real.seconds if real and amount else None


def _host(evidence: Evidence) -> float | None:
    """Host work in a real step: it was timed in resident ones, which may have been slower."""
    taken = evidence.times
    if isinstance(taken.host_, Missing):
        return None
    real, resident = _seconds(taken.real_), _seconds(taken.resident_)
    if real is None or resident is None:
        return taken.host_
    return taken.host_ * min(1.0, real / max(resident, taken.host_, 1e-9))


def _seconds(measure: Measure | Missing) -> float | None:
    return measure.seconds if isinstance(measure, Measure) else None


def step_parts(evidence: Evidence) -> tuple[StepPart, ...]:
    """The parts of a step in their order; empty where it was not taken apart."""
    split = Missing("") if evidence.torch_ is None else evidence.torch_.split_
    if isinstance(split, Missing) or sum(part.seconds for part in split) <= 0:
        return ()
    order = list(NAMES)
    return tuple(sorted(split, key=lambda part: order.index(part.name)))


def sync_points(evidence: Evidence) -> tuple[SyncPoint, ...]:
    """The calls that wait for the device, line by line, the dearest first.

    Calls of one kind that stand in one line are one row: a reader could not tell them apart.
    """
    found = () if evidence.torch_ is None else evidence.torch_.syncs
    lines: dict[tuple[str, str, int], SyncPoint] = {}
    for sync in found:
        key = (sync.what, sync.where.file, sync.where.line)
        before = lines.get(key, replace(sync, what=call(sync.what), calls=0.0, seconds=0.0))
        lines[key] = replace(
            before,
            calls=before.calls + sync.calls,
            seconds=before.seconds + sync.seconds,
            printed=before.printed or sync.printed,
        )
    return tuple(sorted(lines.values(), key=lambda sync: -sync.seconds))


def device_memory(evidence: Evidence) -> DeviceMemory | None:
    """The allocator's counts; None without a GPU."""
    counted = {} if evidence.torch_ is None else evidence.torch_.memory
    if not counted:
        return None
    return read_as(DeviceMemory, counted)


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
    if stage.python and stage.op not in _OF_LOADERS:
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
    if isinstance(workers := stage.arguments.get("workers"), int):
        yield "1 worker" if workers == 1 else f"{workers} workers"
    if isinstance(ahead := stage.arguments.get("prefetch_factor"), int):
        yield f"{ahead} batches ahead each"


def parallel(evidence: Evidence) -> ReportedParallel | None:
    """The job's ranks and their exchange; None for one process on one device."""
    job = evidence.parallel_
    if job is None:
        return None
    real = evidence.times.real_
    even = job.break_even_batch_
    return read_as(
        ReportedParallel,
        vars(job),
        ranks=_ranks(job),
        exchange=None if job.exchange is None else _exchange(job.exchange, _seconds(real)),
        break_even_batch=None if isinstance(even, Missing) else even,
        strategy=evidence.strategy,
    )


def _ranks(job: Parallel) -> tuple[ReportedRank, ...]:
    own = [rank.local.seconds for rank in job.processes if isinstance(rank.local, Measure)]
    slowest = max(own) if len(own) > 1 else None
    return tuple(_rank(rank, slowest) for rank in job.processes)


def _rank(rank: Rank, slowest: float | None) -> ReportedRank:
    local, real = _seconds(rank.local), _seconds(rank.real)
    waits = None if slowest is None or local is None else slowest - local
    if waits is not None and local is not None and real is not None:
        waits = max(0.0, min(waits, real - local))  # the slowest's was timed on other samples
    return read_as(
        ReportedRank,
        vars(rank),
        real_s=real,
        resident_s=_seconds(rank.resident),
        local_s=local,
        input_s=_seconds(rank.input_),
        waits_s=waits,
    )


def _exchange(found: Exchange, real: float | None) -> ReportedExchange:
    cost = found.seconds_ if isinstance(found.seconds_, Measure) else None
    return read_as(
        ReportedExchange,
        vars(found),
        seconds_per_step=None if cost is None else cost.seconds,
        low_s=None if cost is None else cost.low,
        high_s=None if cost is None else cost.high,
        share=None if cost is None or not real else cost.seconds / real,
        waiting_s=None if isinstance(found.waiting_, Missing) else found.waiting_,
        all_reduce=None if isinstance(found.all_reduce, Missing) else found.all_reduce,
    )


def timeline(recording: Recording, cores: float) -> Timeline | None:
    """How busy the machine was over the run; None where nothing was sampled.

    `cores` is how many the script may use. Samples are thinned by taking the mean of
    neighbours. The phases are those of the process that went through most of them.
    """
    samples = [one for one in recording.samples if one.host is not None or one.gpus]
    if not samples:
        return None
    processes = recording.events.values()
    marked = ([event for event in events if event["e"] == "phase"] for events in processes)
    marks = max(marked, key=len, default=[])
    each = -(-len(samples) // MOMENTS)
    groups = (samples[at : at + each] for at in range(0, len(samples), each))
    return Timeline(
        seconds=recording.ended - recording.started,
        cores=cores,
        phases=tuple(_spans(marks, recording)),
        moments=tuple(_moment(group, recording.started) for group in groups),
    )


def _spans(marks: list[Event], recording: Recording) -> Iterator[Span]:
    """The phases in a row; neighbours of one name are one."""
    started, ended = recording.started, recording.ended
    phase, since = START_UP, started
    for mark in marks:
        at = min(max(float(mark["t"]), started), ended)
        if mark["p"] == phase:
            continue
        if at > since:
            yield Span(phase, since - started, at - started)
        phase, since = str(mark["p"]), at
    if ended > since:
        yield Span(phase, since - started, ended - started)


def _moment(group: list[Sample], started: float) -> Moment:
    hosts = [one.host for one in group if one.host is not None]
    reads = [one.read_bytes_s for one in hosts if one.read_bytes_s is not None]
    indices = sorted({gpu.index for one in group for gpu in one.gpus})
    return Moment(
        t=sum(one.t for one in group) / len(group) - started,
        cpu_cores=_mean([one.cpu_cores for one in hosts]),
        machine_cpu_cores=_mean([one.machine_cpu_cores for one in hosts]),
        rss=max((one.rss for one in hosts), default=None),
        gpu_percent=tuple(
            _mean(
                [
                    gpu.utilization_percent
                    for one in group
                    for gpu in one.gpus
                    if gpu.index == index and gpu.utilization_percent is not None
                ]
            )
            for index in indices
        ),
        read_bytes_s=_mean(reads),
    )


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None

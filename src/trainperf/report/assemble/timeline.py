"""The three times as reported, and the samples over time with the phases of the loop."""

from __future__ import annotations

from collections.abc import Iterator

from trainperf.model import (
    Event,
    Evidence,
    Measure,
    Missing,
    Moment,
    Recording,
    ReportedTimes,
    Sample,
    Span,
    Timeline,
)

MOMENTS = 240
"""Moments kept at most: about one for each three pixels of a page."""

START_UP = "start-up"


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

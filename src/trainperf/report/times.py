"""The three times, as reported."""

from __future__ import annotations

from trainperf.model import Evidence, Measure, Missing, ReportedTimes


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

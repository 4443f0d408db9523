"""The three times, as reported."""

from __future__ import annotations

from trainperf.model import Evidence, Measure, Missing, ReportedTimes


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

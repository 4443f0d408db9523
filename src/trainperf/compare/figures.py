"""Figures side by side: times, stages, parts of the step, utilisation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trainperf.child.timing.estimating import estimate
from trainperf.compare.values import Amount, Change, Unit
from trainperf.model import Diagnosis, PhaseUse, ReportedStage

PROCESS = 0.015
"""Half the interval of any time, as a share of it, at least.

Two processes of one script differ by 1 to 2 % all their life, by where their memory
happens to lie (measured on TensorFlow and PyTorch, CPU); blocks of steps within one
process do not show it.
"""

PART = 0.10
"""The same for stages and parts of a step, which are timed over a few steps only."""

UTILIZATION = 0.05
"""Half the interval of a utilisation, a difference of shares."""

UNKNOWN = 0.10
"""The same for a time whose noise is not known, as in `Measure.noise`."""

PHASES = ("real", "resident", "input")


def times(a: Diagnosis, b: Diagnosis, by_samples: bool) -> tuple[Change, ...]:
    """The times of a step, samples per second, and what start-up and epochs' ends take.

    With `by_samples` the times of a step are not of the same work: they are given, and
    nothing is said of their difference.
    """
    other = "the batch size is not the same" if by_samples else ""
    steps = [
        change(f"{name} step" if name != "input" else "input for a step", "s", *pair, other)
        for name in PHASES
        if any(pair := (_phase(a, name), _phase(b, name)))
    ]
    host = (_plain(a.times.host_s, PART), _plain(b.times.host_s, PART))
    start = (_plain(a.times.startup_s, UNKNOWN), _plain(b.times.startup_s, UNKNOWN))
    rows = [
        *steps,
        change("host work for a step", "s", *host, other),
        change("samples per second", "samples/s", _samples(a), _samples(b)),
        change("start-up", "s", *start),
        change("between epochs", "s", _between(a), _between(b)),
    ]
    return tuple(row for row in rows if row.before or row.after)


def stages(a: Diagnosis, b: Diagnosis, by_samples: bool) -> tuple[Change, ...]:
    """The stages of the input, matched by name and place, in the order of the second."""
    other = "the batch size is not the same" if by_samples else ""
    before, after = _by_name(a.stages), _by_name(b.stages)
    return tuple(
        change(name, "s", _stage(before.get(name)), _stage(after.get(name)), other)
        for name in dict.fromkeys((*after, *before))
    )


def step_parts(a: Diagnosis, b: Diagnosis, by_samples: bool) -> tuple[Change, ...]:
    """The parts of a step, by name."""
    other = "the batch size is not the same" if by_samples else ""
    before = {str(one.name): one.seconds_per_step for one in a.step_parts}
    after = {str(one.name): one.seconds_per_step for one in b.step_parts}
    return tuple(
        change(name, "s", _plain(before.get(name), PART), _plain(after.get(name), PART), other)
        for name in dict.fromkeys((*after, *before))
    )


def utilization(a: Diagnosis, b: Diagnosis) -> tuple[Change, ...]:
    """How busy accelerator and cores were while the script trained."""
    shares = (_around(one.verdict.utilization, UTILIZATION) for one in (a, b))
    was, now = _use(a), _use(b)
    cores = (_plain(None if one is None else one.cpu_cores, UNKNOWN) for one in (was, now))
    memory = (_plain(None if one is None else one.rss_peak, PART) for one in (was, now))
    rows = (
        _row("utilisation", "share", shares),
        _row("cores kept busy", "cores", cores),
        _row("memory of the script", "bytes", memory),
    )
    return tuple(row for row in rows if row.before or row.after)


def _row(name: str, unit: Unit, pair: Iterable[Amount | None]) -> Change:
    before, after = pair
    return change(name, unit, before, after)


def change(
    name: str, unit: Unit, before: Amount | None, after: Amount | None, reason: str = ""
) -> Change:
    """Lay two amounts side by side; with a `reason`, their difference is not judged."""
    if before is None or after is None:
        missing = "the first" if before is None else "the second"
        return Change(name, unit, before, after, reason=f"not measured in {missing}")
    relative = after.value / before.value - 1 if before.value > 0 else None
    if reason:
        return Change(name, unit, before, after, relative, reason=reason)
    return Change(name, unit, before, after, relative, _apart(before, after))


def _apart(a: Amount, b: Amount) -> bool | None:
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return None
    return a.high < b.low or b.high < a.low


def relative_noise(diagnosis: Diagnosis, phase: str) -> float | None:
    """Half the 95 % interval of a phase's time, as a share of it; None where not known."""
    if phase == "real":
        return diagnosis.times.noise
    blocks = diagnosis.times.spread.get(phase, ())
    found = estimate(blocks) if blocks else None
    return None if found is None or found.half is None else found.relative


def _phase(diagnosis: Diagnosis, phase: str) -> Amount | None:
    seconds: float | None = getattr(diagnosis.times, f"{phase}_s")
    noise = relative_noise(diagnosis, phase) if seconds else None
    return _plain(seconds, UNKNOWN if noise is None else max(noise, PROCESS))


def _samples(diagnosis: Diagnosis) -> Amount | None:
    noise = diagnosis.times.noise
    width = UNKNOWN if noise is None else max(noise, PROCESS)
    return _plain(diagnosis.times.samples_per_s, width)


def _between(diagnosis: Diagnosis) -> Amount | None:
    """The time between epochs; what is shorter than a step is never a change."""
    between = diagnosis.between_epochs
    if between is None or not between.epochs_seen or not between.sure:
        return None
    step = diagnosis.times.real_s or 0.0
    half = max(2 * UNKNOWN * between.seconds, step)
    return Amount(between.seconds, max(0.0, between.seconds - half), between.seconds + half)


def _plain(value: float | None, noise: float) -> Amount | None:
    if value is None:
        return None
    return Amount(value, max(0.0, value * (1 - noise)), value * (1 + noise))


def _around(value: float | None, half: float) -> Amount | None:
    return None if value is None else Amount(value, value - half, value + half)


def _stage(stage: ReportedStage | None) -> Amount | None:
    return None if stage is None else _plain(stage.seconds_per_step, PART)


def _by_name(listed: Sequence[ReportedStage]) -> dict[str, ReportedStage]:
    """Stages under a name of their own: its function, and a number where that is not enough.

    Lines move with every edit, so the place counts as the order among those of one name.
    """
    named: dict[str, ReportedStage] = {}
    for stage in listed:
        function = f" ({stage.function.name})" if stage.function is not None else ""
        name, number = f"{stage.name}{function}", 1
        while name in named:
            number += 1
            name = f"{stage.name}{function} {number}"
        named[name] = stage
    return named


def _use(diagnosis: Diagnosis) -> PhaseUse | None:
    uses: Iterable[PhaseUse] = diagnosis.utilization
    return next((use for use in uses if use.phase == "real"), None)

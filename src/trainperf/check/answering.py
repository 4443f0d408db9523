"""The answer of a check: its failures, its doubts, and the one line that is printed last."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path, PurePath

from trainperf import store
from trainperf.check.judging import BUSY, Judged, judge, noise
from trainperf.check.running import ALARM_RUNS, BASELINE_RUNS, Repeat, Runs, repeat
from trainperf.errors import TrainperfError
from trainperf.model import (
    Answer,
    Check,
    CheckedTimes,
    Compared,
    Diagnosis,
    Reason,
)
from trainperf.model.words import seconds, share

POOR = 0.05
"""Runs of a baseline that differ by more can tell no usual regression."""


@dataclass(frozen=True)
class Limits:
    """The criteria of a check: shares of 1, None where none was given."""

    max_regression: float
    min_utilization: float | None
    strict: bool


@dataclass(frozen=True)
class Baseline(Diagnosis):
    """A saved diagnosis with every run that it was made of; its file is a report as well."""

    repeats: tuple[Repeat, ...] = ()

    @property
    def runs(self) -> tuple[Repeat, ...]:
        """The runs that it was made of; of a plain report, the one."""
        return self.repeats or (repeat(self),)


def answer(saved: Baseline, against: Compared, runs: Runs, limits: Limits) -> Check:
    """Say whether the runs pass: times, utilisation. Pure."""
    times = judge(saved.runs, runs.repeats, limits.max_regression)
    reasons = tuple(_reasons(times, runs, limits))
    told = {reason.outcome for reason in reasons}
    outcome: Answer = "failed" if "failed" in told else "undecided" if told else "passed"
    return Check(
        outcome=outcome,
        exit_status=int(outcome == "failed" or (limits.strict and outcome == "undecided")),
        text=_line(outcome, times, reasons, limits),
        reasons=reasons,
        times=_times(times),
        runs=times.runs,
        baseline=against,
    )


def settled(saved: Baseline, runs: Runs, limits: Limits) -> bool:
    """Whether another run could not change the answer, or need not: a pass stands at once.

    Slower or otherwise worse than allowed is asked for again, until `ALARM_RUNS` agree.
    """
    times = judge(saved.runs, runs.repeats, limits.max_regression)
    enough = len(runs.repeats) >= ALARM_RUNS
    if any(reason.outcome == "failed" for reason in _reasons(times, runs, limits)):
        return enough and times.outcome != "undecided"
    if times.change > limits.max_regression:
        return False
    return times.outcome == "passed" or not times.again or enough


def shortcomings(repeats: Sequence[Repeat]) -> Iterator[str]:
    """The reasons why runs are a poor baseline: too few, apart, beside other programs."""
    if len(repeats) < BASELINE_RUNS:
        yield f"there was time for {len(repeats)} of {BASELINE_RUNS} runs: see --budget"
    if len(repeats) > 1 and (apart := noise(repeats)) > POOR:
        yield f"the runs differ by {apart * 100:.0f} %: a check against it cannot tell"
    others = min(repeats, key=lambda run: run.fastest_s).others or 0.0
    if others > BUSY:
        yield f"other programs kept {others:.1f} cores busy: save it again without them"


def _reasons(times: Judged, runs: Runs, limits: Limits) -> Iterator[Reason]:
    """What keeps the runs from passing; the first of those of one outcome is told."""
    busy = [run.utilization for run in runs.repeats if run.utilization is not None]
    floor = limits.min_utilization
    if floor is not None and not busy:
        yield Reason("utilization", "undecided", "utilisation was not measured", None, floor)
    if times.outcome != "passed":
        why = "slower" if times.outcome == "failed" else times.reason
        text = f"{why}: {_figures(times, limits)}"
        yield Reason("time", times.outcome, text, times.change, limits.max_regression)
    if floor is not None and busy and max(busy) < floor:
        text = f"utilisation {max(busy) * 100:.0f} %, at least {floor * 100:.0f} % is wanted"
        yield Reason("utilization", "failed", text, max(busy), floor)


def _line(outcome: Answer, times: Judged, reasons: Sequence[Reason], limits: Limits) -> str:
    if outcome == "passed":
        return f"check passed: {_figures(times, limits)}"
    first, *others = [reason.text for reason in reasons if reason.outcome == outcome]
    if outcome == "undecided":
        return f"check cannot tell: {first}"
    more = f"; and {len(others)} more" if others else ""
    return f"check failed: {first}{more}"


def _figures(times: Judged, limits: Limits) -> str:
    before, after = seconds(times.before_s), seconds(times.after_s)
    what = "sample" if times.by_samples else "step"
    return (
        f"{after} a {what} against {before} "
        f"({times.change * 100:+.1f} %, noise ±{share(times.noise)}, "
        f"limit {limits.max_regression * 100:.3g} %)"
    )


def _times(judged: Judged) -> CheckedTimes:
    return CheckedTimes(
        basis="sample" if judged.by_samples else "step",
        before_s=judged.before_s,
        after_s=judged.after_s,
        change=judged.change,
    )


# A baseline's file: read with clear errors, written whole.


def compared(saved: Baseline, path: Path) -> Compared:
    """Return what a baseline is known by, `path` being the file or folder it was read from."""
    file = store.resolve_run(path)
    return Compared(
        file=str(file),
        sha256=hashlib.sha256(file.read_bytes()).hexdigest(),
        created=saved.created,
        trainperf_version=saved.trainperf_version,
        script=saved.script,
        hostname=saved.evidence.machine.hostname,
        runs=len(saved.runs),
    )


def load(path: Path, script: str) -> Baseline:
    """Read the baseline of `script`; any saved report will do, as a baseline of one run.

    Raises `TrainperfError` where there is none yet, where the file is not whole, or of a
    newer format, where it is of another script, and where no step was timed for it.
    """
    make = f"trainperf check --save-baseline {path} {script}"
    if not path.exists():
        raise TrainperfError(f"there is no baseline {path} yet", f"this makes one: {make}")
    saved = store.load_value(store.resolve_run(path), Baseline)
    if not _names(saved.script) & _names(script):
        raise TrainperfError(
            f"{path} is a baseline of {saved.script}, not of {script}",
            f"give that of {script}, or make one: {make}",
        )
    if saved.step_s is None:
        raise TrainperfError(f"{path} has no time of a step: that run failed", f"again: {make}")
    if not all(run.fastest_s > 0 and run.mean_s > 0 for run in saved.repeats):
        raise TrainperfError(f"{path} holds figures that no run gives", f"again: {make}")
    return saved


def save(diagnosis: Diagnosis, repeats: Sequence[Repeat], path: Path) -> None:
    """Write `diagnosis`, the run that stands for the others, with all runs."""
    values = {field.name: getattr(diagnosis, field.name) for field in fields(Diagnosis)}
    store.save_value(Baseline(**values, repeats=tuple(repeats)), path)


def _names(script: str) -> set[str]:
    """A script's name wherever it is called from: the last part of its path.

    It may be a command, or a path with spaces in it. Bytes that are no text are as a file
    has them, see `store.save_value`.
    """
    text = script.encode("utf-8", "backslashreplace").decode()
    whole = {PurePath(text).name} if text.endswith(".py") else set()
    return whole | {" ".join(PurePath(word).name for word in text.split())}

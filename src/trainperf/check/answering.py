"""The answer of a check: its failures, its doubts, and the one line that is printed last."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path, PurePath

from trainperf import store
from trainperf.check.judging import BUSY, judge, noise
from trainperf.check.running import ALARM_RUNS, BASELINE_RUNS, MOST_RUNS, Runs, repeat
from trainperf.check.values import Baseline, Checked, Criteria, Judged, Repeat
from trainperf.errors import TrainperfError
from trainperf.model import (
    Answer,
    Check,
    CheckedTimes,
    Compared,
    Diagnosis,
    Finding,
    Limits,
    Reason,
)
from trainperf.model.words import seconds, share


def answer(
    baseline: Baseline, diagnosis: Diagnosis, repeats: Sequence[Repeat], wanted: Criteria
) -> Checked:
    """Say whether the runs pass: times, new findings, utilisation. Pure.

    A new finding fails a check if it is in every run and in none of the baseline's, worth
    enough in each; in fewer runs than `MOST_RUNS` it is a doubt, and so it is where another
    version of trainperf, which may not have looked for it, saved the baseline.
    """
    before = repeats_of(baseline)
    times = judge(before, repeats, wanted.most)
    new = _new(before, diagnosis, repeats, wanted)
    uncertain = _uncertain(baseline, diagnosis, repeats)
    reasons = (
        *_of_utilization_missing(repeats, wanted),
        *_of_times(times, wanted),
        *(_of_finding(one, uncertain, wanted) for one in new),
        *_of_utilization(repeats, wanted),
        *([Reason("time", "passed", times.remark)] if times.remark else ()),
    )
    decided = {one.outcome for one in reasons}
    outcome: Answer = next((one for one in _WORST_FIRST if one in decided), "passed")
    return Checked(outcome, _line(outcome, times, reasons, wanted), times, reasons)


_WORST_FIRST: tuple[Answer, ...] = ("failed", "undecided")


def settled(baseline: Baseline, runs: Runs, wanted: Criteria) -> bool:
    """Whether another run could not change the answer, or need not: a pass stands at once.

    Slower or otherwise worse than allowed is asked for again, until `ALARM_RUNS` agree; a
    finding until all runs do.
    """
    checked = answer(baseline, runs.diagnosis, runs.repeats, wanted)
    if checked.failures:
        return len(runs.repeats) >= ALARM_RUNS and checked.times.outcome != "undecided"
    new = _new(repeats_of(baseline), runs.diagnosis, runs.repeats, wanted)
    if new and baseline.trainperf_version == runs.diagnosis.trainperf_version:
        return False
    times = checked.times
    if times.change > wanted.most:
        return False
    return times.outcome == "passed" or not times.again or len(runs.repeats) >= ALARM_RUNS


def shortcomings(repeats: Sequence[Repeat]) -> tuple[str, ...]:
    """The reasons why runs are a poor baseline: too few, apart, beside other programs."""
    told = []
    if len(repeats) < BASELINE_RUNS:
        told.append(f"there was time for {len(repeats)} of {BASELINE_RUNS} runs: see --budget")
    apart = noise(repeats)
    if len(repeats) > 1 and apart > Criteria.most:
        told.append(f"the runs differ by {apart * 100:.0f} %: a check against it cannot tell")
    others = min(repeats, key=lambda one: one.fastest_s).others or 0.0
    if others > BUSY:
        told.append(f"other programs kept {others:.1f} cores busy: save it again without them")
    return tuple(told)


def _new(
    before: Sequence[Repeat], diagnosis: Diagnosis, repeats: Sequence[Repeat], wanted: Criteria
) -> list[Finding]:
    if wanted.fail_on == "none":
        return []
    known = {one for run in before for one in run.findings}
    always = set.intersection(*(_found(run, wanted.fail_on) for run in repeats))
    return [one for one in diagnosis.findings if one.id in always - known]


def _found(run: Repeat, fail_on: str | float) -> set[str]:
    """The findings of a run that are worth enough in it; one without a bound always is."""
    bounds = run.bounds or (None,) * len(run.findings)
    pairs = zip(run.findings, bounds, strict=True)
    return {id_ for id_, bound in pairs if _counts(bound, fail_on)}


def _uncertain(baseline: Baseline, now: Diagnosis, repeats: Sequence[Repeat]) -> str:
    """Why a finding that the baseline has not may be no news; "" if nothing says so."""
    if baseline.trainperf_version != now.trainperf_version:
        saved = baseline.trainperf_version
        return f"trainperf {saved}, which saved the baseline, may not have looked for it"
    if len(repeats) < MOST_RUNS:
        return f"seen in {len(repeats)} runs only" if len(repeats) > 1 else "seen in one run only"
    return ""


def _counts(bound: float | None, fail_on: str | float) -> bool:
    return isinstance(fail_on, str) or bound is None or bound >= fail_on


def _of_times(times: Judged, wanted: Criteria) -> list[Reason]:
    if times.outcome == "passed":
        return []
    why = "slower" if times.outcome == "failed" else times.reason
    text = f"{why}: {_figures(times, wanted)}"
    low, high = times.interval
    return [Reason("time", times.outcome, text, times.change, wanted.most, low, high)]


def _of_finding(finding: Finding, uncertain: str, wanted: Criteria) -> Reason:
    worth = "" if finding.bound is None else f" (up to {finding.bound:.2f}×)"
    text = f"new finding {finding.id}{worth}: {finding.title}"
    limit = None if isinstance(wanted.fail_on, str) else wanted.fail_on
    return Reason(
        "finding",
        "undecided" if uncertain else "failed",
        f"{text}; {uncertain}" if uncertain else text,
        finding.bound,
        limit,
        finding=finding.id,
    )


def _of_utilization(repeats: Sequence[Repeat], wanted: Criteria) -> list[Reason]:
    seen = _utilizations(repeats)
    if wanted.least is None or not seen or max(seen) >= wanted.least:
        return []
    text = f"utilisation {max(seen) * 100:.0f} %, at least {wanted.least * 100:.0f} % is wanted"
    figures = (max(seen), wanted.least, min(seen), max(seen))
    return [Reason("utilization", "failed", text, *figures)]


def _of_utilization_missing(repeats: Sequence[Repeat], wanted: Criteria) -> list[Reason]:
    """The first of the doubts: nothing else answers what was asked."""
    if wanted.least is None or _utilizations(repeats):
        return []
    return [Reason("utilization", "undecided", "utilisation was not measured", None, wanted.least)]


def _utilizations(repeats: Sequence[Repeat]) -> list[float]:
    return [one.utilization for one in repeats if one.utilization is not None]


def _line(outcome: Answer, times: Judged, reasons: Sequence[Reason], wanted: Criteria) -> str:
    if outcome == "passed":
        return f"check passed: {_figures(times, wanted)}"
    first, *others = [one.text for one in reasons if one.outcome == outcome]
    if outcome == "undecided":
        return f"check cannot tell: {first}"
    more = f"; and {len(others)} more" if others else ""
    return f"check failed: {first}{more}"


def _figures(times: Judged, wanted: Criteria) -> str:
    before, after = seconds(times.before_s), seconds(times.after_s)
    what = "sample" if times.by_samples else "step"
    return (
        f"{after} a {what} against {before} "
        f"({times.change * 100:+.1f} %, noise ±{share(times.noise)}, "
        f"limit {wanted.most * 100:.3g} %)"
    )


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
        runs=len(repeats_of(saved)),
    )


def reported(
    checked: Checked, against: Compared, wanted: Criteria, strict: bool, exit_status: int
) -> Check:
    """Return the answer with its figures and its limits, for the report. Pure."""
    return Check(
        outcome=checked.outcome,
        exit_status=exit_status,
        text=checked.line,
        reasons=checked.reasons,
        times=_times(checked.times),
        runs=checked.times.runs,
        limits=Limits(wanted.most, wanted.least, wanted.fail_on, strict),
        baseline=against,
    )


def _times(judged: Judged) -> CheckedTimes:
    low, high = judged.interval
    return CheckedTimes(
        basis="sample" if judged.by_samples else "step",
        before_s=judged.before_s,
        after_s=judged.after_s,
        change=judged.change,
        change_low=low,
        change_high=high,
        noise_before=judged.before_noise,
        noise_after=judged.after_noise,
        machine_change=judged.machine,
    )


# A baseline's file: read with clear errors, written whole.


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
    if not all(map(_sound, saved.repeats)):
        raise TrainperfError(f"{path} holds figures that no run gives", f"again: {make}")
    if saved.step_s is None:
        raise TrainperfError(f"{path} has no time of a step: that run failed", f"again: {make}")
    return saved


def repeats_of(saved: Baseline) -> tuple[Repeat, ...]:
    """The runs that a baseline was made of; of a plain report, the one."""
    return saved.repeats or (repeat(saved),)


def save(diagnosis: Diagnosis, repeats: Sequence[Repeat], path: Path) -> None:
    """Write `diagnosis`, the run that stands for the others, with all runs."""
    values = {one.name: getattr(diagnosis, one.name) for one in fields(Diagnosis)}
    store.save_value(Baseline(**values, repeats=tuple(repeats)), path)


def _sound(run: Repeat) -> bool:
    """Whether a run's figures can be reckoned with: the file may have been edited."""
    speeds = () if run.speed is None else (run.speed.one_s, run.speed.all_s)
    positive = (run.fastest_s, run.mean_s, run.batch_size, *speeds)
    paired = len(run.bounds) in (0, len(run.findings))
    return paired and all(one is None or one > 0 for one in positive)


def _names(script: str) -> set[str]:
    """A script's name wherever it is called from: the last part of its path.

    It may be a command, or a path with spaces in it. Bytes that are no text are as a file
    has them, see `store.save_value`.
    """
    text = script.encode("utf-8", "backslashreplace").decode()
    whole = {PurePath(text).name} if text.endswith(".py") else set()
    return whole | {" ".join(PurePath(word).name for word in text.split())}

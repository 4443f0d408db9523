"""The answer of a check: its failures, its doubts, and the one line that is printed last."""

from __future__ import annotations

from collections.abc import Sequence

from trainperf.checking.baseline import repeats_of
from trainperf.checking.judging import judge
from trainperf.checking.running import ALARM_RUNS, Runs
from trainperf.checking.values import Baseline, Checked, Judged, Outcome, Repeat, Wanted
from trainperf.model import Diagnosis, Finding


def answer(
    baseline: Baseline, diagnosis: Diagnosis, repeats: Sequence[Repeat], wanted: Wanted
) -> Checked:
    """Say whether the runs pass: times, new findings, utilisation. Pure.

    A new finding fails a check if it is in every run and in none of the baseline's.
    """
    before = repeats_of(baseline)
    times = judge(before, repeats, wanted.most)
    failures = [_slower(times, wanted)] if times.outcome == "failed" else []
    doubts = [_cannot_tell(times, wanted)] if times.outcome == "undecided" else []
    new = _new(before, diagnosis, repeats, wanted)
    failures += [f"new finding {one.id}{_worth(one)}: {one.title}" for one in new]
    _utilization(repeats, wanted, failures, doubts)
    outcome: Outcome = "failed" if failures else "undecided" if doubts else "passed"
    return Checked(
        outcome=outcome,
        line=_line(outcome, times, failures, doubts, wanted),
        times=times,
        failures=tuple(failures),
        doubts=(*doubts, *([times.remark] if times.remark else [])),
        new=tuple(one.id for one in new),
    )


def settled(baseline: Baseline, runs: Runs, wanted: Wanted) -> bool:
    """Whether another run could not change the answer, or need not: a pass stands at once.

    Slower or otherwise worse than allowed is asked for again, until `ALARM_RUNS` agree.
    """
    checked = answer(baseline, runs.diagnosis, runs.repeats, wanted)
    if checked.failures:
        return len(runs.repeats) >= ALARM_RUNS and checked.times.outcome != "undecided"
    return checked.times.change <= wanted.most


def _new(
    before: Sequence[Repeat], diagnosis: Diagnosis, repeats: Sequence[Repeat], wanted: Wanted
) -> list[Finding]:
    if wanted.fail_on == "none":
        return []
    known = {one for run in before for one in run.findings}
    always = set.intersection(*(set(run.findings) for run in repeats))
    return [
        one
        for one in diagnosis.findings
        if one.id in always - known and _counts(one.bound, wanted.fail_on)
    ]


def _counts(bound: float | None, fail_on: str | float) -> bool:
    return isinstance(fail_on, str) or bound is None or bound >= fail_on


def _utilization(
    repeats: Sequence[Repeat], wanted: Wanted, failures: list[str], doubts: list[str]
) -> None:
    if wanted.least is None:
        return
    seen = [one.utilization for one in repeats if one.utilization is not None]
    if not seen:
        doubts.insert(0, "utilisation was not measured")
    elif max(seen) < wanted.least:
        failures.append(
            f"utilisation {max(seen) * 100:.0f} %, at least {wanted.least * 100:.0f} % is wanted"
        )


def _worth(finding: Finding) -> str:
    return "" if finding.bound is None else f" (up to {finding.bound:.2f}×)"


def _slower(times: Judged, wanted: Wanted) -> str:
    return f"slower: {_figures(times, wanted)}"


def _cannot_tell(times: Judged, wanted: Wanted) -> str:
    return f"{times.reason}: {_figures(times, wanted)}"


def _line(
    outcome: Outcome, times: Judged, failures: list[str], doubts: list[str], wanted: Wanted
) -> str:
    if outcome == "passed":
        return f"check passed: {_figures(times, wanted)}"
    if outcome == "undecided":
        return f"check cannot tell: {doubts[0]}"
    more = f"; and {len(failures) - 1} more" if len(failures) > 1 else ""
    return f"check failed: {failures[0]}{more}"


def _figures(times: Judged, wanted: Wanted) -> str:
    """Both times, what they differ by, and what is allowed."""
    noise = max(times.before_noise, times.after_noise) * 100
    before, after, unit = _amounts(times)
    return (
        f"{after} {unit} against {before} {unit.partition(' ')[0]} "
        f"({times.change * 100:+.1f} %, noise ±{noise:.1f} %, limit {wanted.most * 100:.3g} %)"
    )


def _amounts(times: Judged) -> tuple[str, str, str]:
    """Both times to the digits that tell them apart, and their unit."""
    if times.by_samples:
        rates = (1 / times.before_s, 1 / times.after_s)
        return f"{rates[0]:,.4g}", f"{rates[1]:,.4g}", "samples/s"
    scale, name = next(
        (scale, name)
        for scale, name, least in ((1.0, "s", 1.0), (1e3, "ms", 1e-3), (1e6, "µs", 0.0))
        if times.before_s >= least
    )
    decimals = max(0, 2 - len(f"{times.before_s * scale:.0f}") + 1)
    first, second = (f"{one * scale:.{decimals}f}" for one in (times.before_s, times.after_s))
    return first, second, f"{name} a step"

"""The answer of a check: its failures, its doubts, and the one line that is printed last."""

from __future__ import annotations

from collections.abc import Sequence

from trainperf.checking.baseline import repeats_of
from trainperf.checking.judging import BUSY, judge, noise
from trainperf.checking.running import ALARM_RUNS, BASELINE_RUNS, MOST_RUNS, Runs
from trainperf.checking.values import Baseline, Checked, Judged, Outcome, Repeat, Wanted
from trainperf.model import Diagnosis, Finding


def answer(
    baseline: Baseline, diagnosis: Diagnosis, repeats: Sequence[Repeat], wanted: Wanted
) -> Checked:
    """Say whether the runs pass: times, new findings, utilisation. Pure.

    A new finding fails a check if it is in every run and in none of the baseline's, worth
    enough in each; in fewer runs than `MOST_RUNS` it is a doubt, and so it is where another
    version of trainperf, which may not have looked for it, saved the baseline.
    """
    before = repeats_of(baseline)
    times = judge(before, repeats, wanted.most)
    failures = [_slower(times, wanted)] if times.outcome == "failed" else []
    doubts = [_cannot_tell(times, wanted)] if times.outcome == "undecided" else []
    new = _new(before, diagnosis, repeats, wanted)
    why = _uncertain(baseline, diagnosis, repeats)
    told = [f"new finding {one.id}{_worth(one)}: {one.title}" for one in new]
    if why:
        doubts += [f"{one}; {why}" for one in told]
    else:
        failures += told
    _utilization(repeats, wanted, failures, doubts)
    outcome: Outcome = "failed" if failures else "undecided" if doubts else "passed"
    return Checked(
        outcome=outcome,
        line=_line(outcome, times, failures, doubts, wanted),
        times=times,
        failures=tuple(failures),
        doubts=(*doubts, *([times.remark] if times.remark else [])),
        new=() if why else tuple(one.id for one in new),
    )


def settled(baseline: Baseline, runs: Runs, wanted: Wanted) -> bool:
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
    """What makes runs a poor baseline: too few, apart, beside other programs."""
    told = []
    if len(repeats) < BASELINE_RUNS:
        told.append(f"there was time for {len(repeats)} of {BASELINE_RUNS} runs: see --budget")
    apart = noise(repeats)
    if len(repeats) > 1 and apart > Wanted.most:
        told.append(f"the runs differ by {apart * 100:.0f} %: a check against it cannot tell")
    others = min(repeats, key=lambda one: one.fastest_s).others or 0.0
    if others > BUSY:
        told.append(f"other programs kept {others:.1f} cores busy: save it again without them")
    return tuple(told)


def _new(
    before: Sequence[Repeat], diagnosis: Diagnosis, repeats: Sequence[Repeat], wanted: Wanted
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
    width = times.noise * 100
    before, after, unit = _amounts(times)
    return (
        f"{after} {unit} against {before} {unit.partition(' ')[0]} "
        f"({times.change * 100:+.1f} %, noise ±{width:.1f} %, limit {wanted.most * 100:.3g} %)"
    )


def _amounts(times: Judged) -> tuple[str, str, str]:
    """Both times to the digits that tell them apart, and their unit."""
    scale, name = next(
        (scale, name)
        for scale, name, least in ((1.0, "s", 1.0), (1e3, "ms", 1e-3), (1e6, "µs", 0.0))
        if times.before_s >= least
    )
    decimals = max(0, 2 - len(f"{times.before_s * scale:.0f}") + 1)
    first, second = (f"{one * scale:.{decimals}f}" for one in (times.before_s, times.after_s))
    return first, second, f"{name} a {'sample' if times.by_samples else 'step'}"

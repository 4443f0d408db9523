"""The verdict once the fixes were tried on the script itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from trainperf.fixes.common.words import ms
from trainperf.model import Evidence, Finding, Measure, Outcome, Trial, Trials, Verdict, by_fix
from trainperf.model.outside import MOST_OF_IT
from trainperf.model.words import measured
from trainperf.verdict.healthy import tried
from trainperf.verdict.order import share_compared
from trainperf.verdict.turns import PLACES, mostly_outside
from trainperf.verdict.verdict import SIDES, side_of, verdict

PROMISE = re.compile(
    r"[,;] (?:(?:and it|and|it) could run up to \S+ as fast|what compiling gives was not probed)"
)
"""The words of a verdict on a finding that was not tried yet."""


def verdict_after(
    evidence: Evidence, findings: tuple[Finding, ...], trials: Sequence[Trial]
) -> Verdict:
    """The final verdict, of `findings` in the order that the trials gave them.

    If something was kept, it names what that repairs. Else what was tried and rejected says
    no more what the step could gain, and healthy is what was examined and tried.
    """
    came = by_fix(trials)
    first = findings[0] if findings else None
    best = None if first is None else came.get(first.id)
    if first is not None and best is not None and best.kept:
        return _kept(verdict(evidence, findings), first, best, evidence)
    open_ = tuple(one for one in findings if not _rejected(came.get(one.id)))
    now = verdict(evidence, open_, trials)
    if now.healthy:
        return _in_another_experiment(findings, came, now.utilization) or now
    if open_ or "tried on the script" in now.text:
        return now
    text = f"{now.text.rstrip('.')}{tried(trials)}."
    return Verdict(now.bottleneck, text, now.utilization, grade=now.grade)


SPINS = 1.5
"""The unchanged script must have been so much faster for it to be told."""


def spinning(evidence: Evidence, trying: Trials, step_s: float | None) -> Iterator[str]:
    """A note where the way in which all legs ran made much of the unchanged script."""
    real = evidence.times.real_
    if step_s is None or not isinstance(real, Measure) or real.seconds < SPINS * step_s:
        return
    if trying.passive:
        yield (
            f"with OMP_WAIT_POLICY=passive a step of the unchanged script took {ms(step_s)} in the "
            f"trials, without it {ms(real.seconds)} in the observed run: beside busy neighbours "
            f"threads that spin keep the cores from those they wait for"
        )
    elif trying.huge_pages:
        yield (
            f"with GLIBC_TUNABLES=glibc.malloc.hugetlb=1 a step of the unchanged script took "
            f"{ms(step_s)} in the trials, without it {ms(real.seconds)} in the observed run: "
            f"huge pages may be what it lacks"
        )


def _kept(before: Verdict, first: Finding, best: Trial, evidence: Evidence) -> Verdict:
    """The verdict with the repair that was kept: on its side of the step, by its name.

    Where the steps take the smaller part of a turn, a repair of theirs does not answer for it; nor
    does one that gives less than `MOST_OF_IT` of what a step surely loses on another side.
    """
    gave = ""
    if best.speedup is not None:
        figure = measured(best.speedup, best.low, best.high)
        gave = f" Repaired, {_repaired(best, evidence)} {figure} as fast."
    side = side_of(first)
    if share_compared(first, best, evidence) < MOST_OF_IT and mostly_outside(evidence, ()):
        return Verdict(before.bottleneck, before.text + gave, before.utilization)
    if before.bottleneck == side and before.grade == "settled":
        text = PROMISE.sub("", before.text)
        named = first.title in text or best.basis == "calls"
        text = text if named else f"{text} {first.title}."
        return Verdict(side, text + gave, before.utilization)
    saved, lost = 1 - 1 / (best.speedup or 1.0), 1 - (before.utilization or 1.0)
    if before.grade == "settled" and saved < MOST_OF_IT * lost:
        return Verdict(before.bottleneck, f"{before.text} {first.title}.{gave}", before.utilization)
    text = f"{SIDES[first.category]}: {first.title}.{gave}"
    return Verdict(side, text, before.utilization)


def _in_another_experiment(
    findings: Sequence[Finding], came: Mapping[str, Trial], utilization: float | None
) -> Verdict | None:
    """The verdict where all that is faster makes another experiment of the script; else None.

    A step that such a change shortens is not healthy: it could be shorter, if its user agrees.
    """
    for finding in findings:
        trial = came.get(finding.id)
        if trial is None or trial.outcome is not Outcome.CHANGES or trial.speedup is None:
            continue
        figure = measured(trial.speedup, trial.low, trial.high)
        text = f"{SIDES[finding.category]}: {finding.title}. Changed, it trained {figure} as fast, "
        return Verdict(side_of(finding), f"{text}as another experiment.", utilization)
    return None


def _repaired(best: Trial, evidence: Evidence) -> str:
    """What a speed-up is of: the subject of a sentence, and its verb."""
    if best.basis == "calls":
        return f"{PLACES[evidence.outside.turn]} is"
    return "the whole script ran" if best.basis == "whole runs" else "the steps ran"


def _rejected(trial: Trial | None) -> bool:
    return trial is not None and trial.outcome not in (Outcome.KEPT, Outcome.NOT_TRIED)

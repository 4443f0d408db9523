"""The order of findings: by their bounds, and by what trials gave."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from trainperf.fixes import by_id, concern
from trainperf.fixes.common.words import NOISES, SMALLEST_GAIN
from trainperf.fixes.findings import undisturbed
from trainperf.model import (
    Epoch,
    Equivalence,
    Evidence,
    Finding,
    Missing,
    Outcome,
    Site,
    Trial,
    by_fix,
    known,
)

MOST = 0.5
"""The share of what a finding could save from which storage is its cause."""

MOST_TOLD = 0.8
"""The share of what some lines take from which a finding that saves it is what tells of them."""


def ranked(findings: Iterable[Finding], evidence: Evidence) -> tuple[Finding, ...]:
    """The findings worth a reader's time, best first.

    What has no bound comes first where it decides everything (a GPU that is not used at
    all), else last: it costs no step anything. Next comes a function of the user's own that
    takes a good part of the step. Those within the noise are dropped. Changes
    to the experiment count half: they cost more than an edit. New code of the user's
    stands behind the edit that is to be tried before it, and a sample's making behind the
    storage that takes most of it. What only tells what some lines take is left out where others
    tell of the same lines what they take it for.
    """
    noise = max(SMALLEST_GAIN, NOISES * evidence.times.noise)
    worth = []
    for finding in findings:
        fix = by_id().get(finding.id)
        least = SMALLEST_GAIN if undisturbed(fix, finding.category, evidence) else noise
        if finding.bound is None or finding.bound > 1 + least:
            worth.append(finding)
    kept = [finding for finding in worth if not _told_by_others(finding, worth, evidence)]
    return _ordered(
        kept,
        lambda finding: _place(finding, evidence),
        lambda other, finding: other.rewritable or _explains(other, finding),
    )


def _told_by_others(finding: Finding, others: list[Finding], evidence: Evidence) -> bool:
    """Whether others tell of most of the lines whose time is all that a finding tells."""
    pieces = () if finding.own is None else finding.own.pieces
    least = MOST_TOLD * sum(share for share, _ in pieces)
    for other in others if pieces else ():
        sites = () if other is finding else {*other.where} - {evidence.loop.where}
        shares = (
            share
            for place, (share, whole) in zip(finding.where, pieces, strict=True)
            if any(_covers(site, place, whole) for site in sites)
        )
        if min(sum(shares), 1 - 1 / (other.bound or 1.0)) >= least:
            return True
    return False


def _covers(site: Site, place: Site, whole: bool) -> bool:
    """Whether a site is of the line at `place`, or of any of its function if that is `whole`."""
    if site.file != place.file:
        return False
    names = {each.function.rpartition(".")[2] for each in (site, place)}
    return site.line <= place.line <= max(site.line, site.end_line) or (whole and len(names) == 1)


def _ordered(
    findings: Sequence[Finding],
    place: Callable[[Finding], tuple[Any, ...]],
    holds: Callable[[Finding, Finding], bool],
) -> tuple[Finding, ...]:
    """The findings by their places; right behind those that an expert tries before, if lower.

    That is where the other `holds` back the finding (`Fix.try_before`).
    """

    def behind(finding: Finding) -> tuple[Any, ...]:
        fix = by_id().get(finding.id)
        before = () if fix is None else fix.try_before
        others = (other for other in findings if other.id in before and holds(other, finding))
        return max([(place(finding), 0), *((place(other), 1) for other in others)])

    return tuple(sorted(findings, key=behind))


def _explains(storage: Finding, finding: Finding) -> bool:
    """Whether what storage costs is most of what `finding` could save."""
    if storage.category != "storage" or storage.bound is None or finding.bound is None:
        return False
    return 1 - 1 / storage.bound >= MOST * (1 - 1 / finding.bound)


def _place(finding: Finding, evidence: Evidence) -> tuple[int, float, int, str]:
    if finding.bound is None:
        return 0 if finding.category == "environment" else 3, 0.0, 0, finding.id
    if finding.own is not None and finding.own.surely:
        return 1, 0.0, 0, finding.id
    saves = (1 - 1 / finding.bound) * _share_of(finding, evidence)
    gain = saves / max(1 - saves, 1e-3)
    if finding.equivalence is Equivalence.SEMANTICS and finding.category == "model":
        gain *= 0.5
    return 2, -round(gain, 2), 0 if finding.rewritable else 1, finding.id


def _share_of(finding: Finding, evidence: Evidence) -> float:
    """The share of a turn of the script that a bound is of: that of steps is of no more."""
    turn = known(evidence.outside_)
    between = concern(finding) in ("outside", "epoch end") or finding.slices != "steps"
    return 1.0 if turn is None or turn.turn == "step" or between else 1 - turn.share


def after_trials(
    findings: tuple[Finding, ...], trials: Iterable[Trial], evidence: Evidence
) -> tuple[Finding, ...]:
    """The findings in the order their trials give: kept ones by what they save of a turn.

    Then what could not be tried, in its own order, then what pays and changes the experiment, but
    that before what may, and promises less; last what was tried and not kept. Of what came out
    alike the cause stands before what hides it (`try_before`).
    """
    came = by_fix(trials)
    untried = {
        finding.id: (at, finding)
        for at, finding in enumerate(findings)
        if finding.id not in came or came[finding.id].outcome is Outcome.NOT_TRIED
    }

    def gave(finding: Finding) -> tuple[float, ...]:
        if finding.id in untried:
            return 1, untried[finding.id][0]
        trial = came[finding.id]
        saves = 1 - 1 / (trial.speedup or 1.0)
        if trial.kept:
            return 0, -share_compared(finding, trial, evidence) * saves
        if trial.outcome is not Outcome.CHANGES:
            return (3,)
        less = [
            at
            for at, other in untried.values()
            if other.equivalence is Equivalence.SEMANTICS
            and _place(other, evidence)[1] > 1 - (trial.speedup or 1.0)
        ]
        return (1, less[0] - 0.5, -saves) if less else (2, -saves)

    return _ordered(findings, gave, lambda other, finding: gave(other)[0] == gave(finding)[0])


def share_compared(finding: Finding, trial: Trial, evidence: Evidence) -> float:
    """The share of a turn of the script that a trial compared: slices may hold steps alone."""
    turn = evidence.outside_
    if trial.basis != "steps" or isinstance(finding.slices, Epoch):
        return 1.0
    if isinstance(turn, Missing) or turn.turn not in ("fit", "epoch"):
        return 1.0
    return 1 - turn.share

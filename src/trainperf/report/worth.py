"""A finding's gain in a few words: the same in every report that is not a terminal."""

from __future__ import annotations

from trainperf.model import Finding, Outcome, Trial
from trainperf.model import words as units


def worth(finding: Finding, trial: Trial | None) -> str:
    """Return what repairing it gives: measured with its interval, else at most; no stop."""
    bound = _bound(finding)
    if trial is None or trial.outcome is Outcome.NOT_TRIED:
        return bound
    reason = trial.reason.strip().rstrip(".")
    if trial.speedup is None:
        return f"tried: {trial.outcome}{f' ({reason})' if reason else ''}; {bound}"
    figure = units.measured(trial.speedup, trial.low, trial.high)
    if trial.kept:
        return f"{figure} as fast, measured; {bound}"
    return f"tried: {trial.outcome}, {figure}{f' ({reason})' if reason else ''}; {bound}"


def _bound(finding: Finding) -> str:
    if finding.bound is None:
        return "what it can give is not known"
    return f"at most {units.bound(finding.bound)} as fast"

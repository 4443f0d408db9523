"""A finding's gain in a few words: measured, of what, and beside what was predicted."""

from __future__ import annotations

from trainperf.model import Diagnosis, Finding, Outcome, Trial, by_fix
from trainperf.model import words as units
from trainperf.model.outside import TURNS


def worth(finding: Finding, diagnosis: Diagnosis) -> str:
    """Return what repairing it gives: measured with its interval, else at most; no stop."""
    trial = by_fix(diagnosis.trials).get(finding.id)
    if trial is None or trial.outcome is Outcome.NOT_TRIED:
        return _bound(finding)
    reason = trial.reason.strip().rstrip(".")
    because = f" ({reason})" if reason else ""
    if trial.speedup is None:
        return f"tried: {trial.outcome}{because}; {_bound(finding)}"
    figure = units.measured(trial.speedup, trial.low, trial.high)
    of = of_what(trial, diagnosis)
    if trial.kept:
        return f"{figure} as fast{of}, measured; {predicted(finding, trial)}"
    return f"tried: {trial.outcome}, {figure}{of}{because}; {predicted(finding, trial)}"


def of_what(trial: Trial, diagnosis: Diagnosis) -> str:
    """Say of what a speed-up is, after a figure; "" where it is of the steps."""
    if trial.basis == "whole runs":
        return f", the whole script in {units.count(trial.pairs, 'run')} each"
    if trial.basis == "in the loop":
        return " in the loop"
    if trial.basis == "calls" and diagnosis.outside is not None:
        turn = TURNS[diagnosis.outside.turn]
        return f", {turn[0].lower()}{turn[1:]}"
    return ""


def predicted(finding: Finding, trial: Trial) -> str:
    """Say what was predicted of a trial, and where the measured gain lies beyond it."""
    bound = finding.bound if trial.bound is None else trial.bound
    if bound is None:
        return "nothing was predicted"
    beyond = ""
    if trial.exceeds(bound):
        beyond = ", which was too low"
    elif trial.speedup is not None and trial.speedup > bound:
        beyond = ", within that interval"
    return f"predicted at most {units.bound(bound)}{beyond}"


def _bound(finding: Finding) -> str:
    if finding.bound is None:
        return "what it can give is not known"
    return f"at most {units.bound(finding.bound)} as fast"

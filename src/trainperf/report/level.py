"""How bad a finding is for whoever asked, its gain in a few words, and neighbours' share in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainperf.model import Diagnosis, Finding, Outcome, Trial, by_fix, known
from trainperf.model import words as units
from trainperf.model.training import TURNS

Level = Literal["error", "warning", "note"]

_BUSY = 0.15
"""Cores others kept busy, as a share of those we may use, from which it is said."""

_LEAST = 0.3
"""Cores below which it is not said on a small machine either."""


@dataclass(frozen=True)
class Judgement:
    """The demands on a diagnosis, and the complaints against it besides its findings.

    `fail_on` is as in the settings: "none", "any", or the speed-up from which a finding
    counts. `problems` are sentences, each by itself a reason to fail (a regression).
    `answer` is what a check that does not fail says in a sentence, `undecided` that it is no
    pass: it could not tell.
    """

    fail_on: str | float = "none"
    problems: tuple[str, ...] = ()
    answer: str = ""
    undecided: bool = False

    def level(self, finding: Finding, diagnosis: Diagnosis) -> Level:
        """Return "error" for what makes `fail_on` fail, "warning" for another finding.

        One whose fix was tried and is not worth it is a note.
        """
        if finding.id in failing(diagnosis, self.fail_on):
            return "error"
        return "note" if rejected(by_fix(diagnosis.trials).get(finding.id)) else "warning"


ASKED_FOR_NOTHING = Judgement()


def failing(diagnosis: Diagnosis, fail_on: str | float) -> frozenset[str]:
    """Return the ids of the findings that meet `fail_on`, empty if none does.

    A finding is worth what was measured of its fix, else its bound; one without a bound
    may be worth anything. Fixes that are worth it together only all meet it. One that was
    measured to change the experiment is no speed-up of this one.
    """
    if fail_on == "none":
        return frozenset()
    trials, found = by_fix(diagnosis.trials), set()
    for finding in diagnosis.findings:
        trial, worth = trials.get(finding.id), finding.bound
        if trial is not None and trial.outcome in NO_GAIN:
            continue
        if isinstance(fail_on, str):
            found.add(finding.id)
            continue
        if trial is not None and trial.outcome is Outcome.CHANGES:
            continue
        if trial is not None and trial.speedup is not None:
            worth = trial.speedup
        if worth is None or worth >= fail_on:
            found.add(finding.id)
    stack = diagnosis.stack
    if not isinstance(fail_on, str) and stack is not None and stack.speedup >= fail_on:
        found.update(stack.fixes)
    return frozenset(found)


def rejected(trial: Trial | None) -> bool:
    """Whether a fix was tried and is not worth its edit."""
    worth = (Outcome.KEPT, Outcome.CHANGES, Outcome.NOT_TRIED)
    return trial is not None and trial.outcome not in worth


NO_GAIN = (Outcome.NO_EFFECT, Outcome.SLOWER, Outcome.LOSES)
"""Outcomes of changes that make this training no faster."""


def took(others: float | None, cores: float) -> str:
    """Say how many cores others took; "" where they are few, or that was not told."""
    if others is None or others <= max(_LEAST, _BUSY * cores):
        return ""
    return f"neighbours took about {others:.1f} of {cores:.3g} cores"


def of_what(trial: Trial, diagnosis: Diagnosis) -> str:
    """Say of what a speed-up is, after a figure; "" where it is of the steps."""
    if trial.basis == "whole runs":
        return f", the whole script in {units.count(trial.pairs, 'run')} each"
    if trial.basis == "in the loop":
        return " in the loop"
    outside = known(diagnosis.evidence.outside_)
    if trial.basis == "calls" and outside is not None:
        turn = TURNS[outside.turn]
        return f", {turn[0].lower()}{turn[1:]}"
    return ""

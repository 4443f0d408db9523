"""How bad a finding is for whoever asked: what makes a check fail, what is only told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from trainperf.model import Diagnosis, Finding, Outcome, Trial, by_fix

Level = Literal["error", "warning", "note"]


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

        Practices are notes, and so are findings whose fix was tried and is not worth it.
        """
        if finding in diagnosis.practices:
            return "note"
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
    return frozenset() if fail_on == "none" else frozenset(_failing(diagnosis, fail_on))


def rejected(trial: Trial | None) -> bool:
    """Whether a fix was tried and is not worth its edit."""
    worth = (Outcome.KEPT, Outcome.CHANGES, Outcome.NOT_TRIED)
    return trial is not None and trial.outcome not in worth


def _failing(diagnosis: Diagnosis, fail_on: str | float) -> Iterator[str]:
    tried = by_fix(diagnosis.trials)
    for finding in diagnosis.findings:
        trial = tried.get(finding.id)
        if not _counts(trial):
            continue
        worth = _worth(finding, trial)
        changes = trial is not None and trial.outcome is Outcome.CHANGES
        if changes and not isinstance(fail_on, str):
            continue
        if isinstance(fail_on, str) or worth is None or worth >= fail_on:
            yield finding.id
    stack = diagnosis.stack
    if not isinstance(fail_on, str) and stack is not None and stack.speedup >= fail_on:
        yield from stack.fixes


NO_GAIN = (Outcome.NO_EFFECT, Outcome.SLOWER, Outcome.LOSES)
"""Outcomes of changes that make this training no faster."""


def _counts(trial: Trial | None) -> bool:
    return trial is None or trial.outcome not in NO_GAIN


def _worth(finding: Finding, trial: Trial | None) -> float | None:
    """The speed-up that repairing a finding gives: as measured, else at most."""
    if trial is not None and trial.speedup is not None:
        return trial.speedup
    return finding.bound

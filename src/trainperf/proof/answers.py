"""The answer to a change, from what its trial measured. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import trainperf
from trainperf.model import (
    Check,
    CheckedTimes,
    Compared,
    Control,
    Outcome,
    Proof,
    Reason,
    Trial,
)
from trainperf.model import words as units
from trainperf.model.findings import Proven
from trainperf.trial import Tried
from trainperf.trial.outcome import floor

DIFFERENCE = 0.02
"""A smaller difference is none, as a share."""
TREE = "the working tree"
UNTOLD = "a longer --budget may tell"


def judged(
    trial: Trial, control: Control | None, at_least: float = 1.0, other_steps: str = ""
) -> Proof:
    """The answer to a change that was tried.

    It is proven where it is surely faster, `at_least` so many times, and its losses are not others.
    `other_steps` says how its steps are others, where they are.
    """
    least = 1 + max(DIFFERENCE, floor(control))
    proof = Proof(
        trial.fix, "cannot tell", "", False, trial.same, trial.speedup, trial.low, trial.high
    )
    if trial.outcome is Outcome.FAILED:
        return replace(proof, answer="failed", text=f"With the change the script {trial.reason}.")
    if trial.speedup is None or trial.low is None or trial.high is None:
        return replace(proof, text=f"Cannot tell: {trial.reason}.")
    figure = units.measured(trial.speedup, trial.low, trial.high)
    compared = f"{units.count(trial.pairs, 'pair')} of slices"
    if trial.basis == "whole runs":
        compared = f"{units.count(trial.pairs, 'whole run')} each"
    within = trial.low > 1 / (1 + DIFFERENCE) and trial.high < 1 + DIFFERENCE
    answer: Proven = "no difference" if within else "cannot tell"
    if trial.low > least or trial.high < 1 / least:
        answer = "faster" if trial.low > least else "slower"
    differs = trial.same is False or bool(other_steps)
    proof = replace(proof, same_training=False if differs else trial.same)
    other = f"it trains something else: {other_steps or trial.parity}" if differs else ""
    text = {
        "slower": f"Slower: {figure}",
        "no difference": f"No difference above {units.share(DIFFERENCE)}: {figure}",
        "cannot tell": f"Cannot tell: {figure} after {compared}; "
        + (
            UNTOLD
            if least <= 1 + DIFFERENCE
            else f"less than {units.share(least - 1)} may be noise"
        ),
    }.get(answer, "")
    if answer != "faster":
        return replace(proof, answer=answer, text=f"{text}{'; ' if other else ''}{other}.")
    if other:
        text = f"Faster, but {other}; {figure}"
    elif trial.outcome is Outcome.LOSES:
        text = f"Its steps are faster, {figure}, but not the training: {trial.reason}"
    elif trial.low <= at_least:
        text = f"Faster, but not surely by {at_least:g}×: {figure}"
    else:
        same = " and trains the same" if trial.same else ""
        return replace(proof, answer=answer, text=f"Faster{same}: {figure}.", proven=True)
    return replace(proof, answer=answer, text=f"{text}.")


def verdict_of(proofs: Sequence[Proof]) -> str:
    """The first line of the report: the one answer, or how those of several come out."""
    if len(proofs) == 1:
        return proofs[0].text
    proven = [proof for proof in proofs if proof.proven]
    if not proven:
        told = (f"{proof.name}: {proof.answer}" for proof in proofs)
        return f"None of the changes is proved to be faster ({'; '.join(told)})."
    best = max(proven, key=lambda proof: proof.speedup or 0.0)
    return f"{best.name}: {best.text[0].lower()}{best.text[1:]}"


def exit_status(proofs: Sequence[Proof]) -> int:
    """0 where a change is proven, 1 where none is, 2 where that cannot be told, 3 if all failed."""
    if any(proof.proven for proof in proofs):
        return 0
    answers = {proof.answer for proof in proofs}
    if answers == {"failed"}:
        return 3
    return 2 if "cannot tell" in answers else 1


# ---------------------------------------------------------------------------- against a revision


def turned(proof: Proof, text: str) -> Proof:
    """The answer seen from the other side: what the script is against the change."""
    answers: Mapping[Proven, Proven] = {"faster": "slower", "slower": "faster"}
    return replace(
        proof,
        name=TREE,
        answer=answers.get(proof.answer, proof.answer),
        text=text,
        proven=proof.answer == "slower",
        speedup=_inverse(proof.speedup),
        low=_inverse(proof.high),
        high=_inverse(proof.low),
        step_s=proof.step_s / proof.speedup if proof.step_s and proof.speedup else None,
        samples_before=proof.samples_after,
        samples_after=proof.samples_before,
        memory_before=proof.memory_after,
        memory_after=proof.memory_before,
        device_memory_before=proof.device_memory_after,
        device_memory_after=proof.device_memory_before,
    )


def _inverse(value: float | None) -> float | None:
    return 1 / value if value else None


def checked(
    before: Proof, tried: Tried, most: float, strict: bool, name: str, whole_s: float | None = None
) -> Check:
    """The answer of a check: `before` is the revision's speed-up over the script. Pure.

    A step of the script takes as much longer as the revision is faster, or a whole run of
    `whole_s` seconds where these were compared.
    """
    step_s = whole_s or tried.step_s
    of_what = "a whole run" if whole_s else "a step"
    noise = floor(tried.control)
    outcome: Literal["passed", "failed", "undecided"] = "undecided"
    text = f"check cannot tell: {name}: {before.text}"
    middle, low, high = before.speedup or 1.0, before.low or 1.0, before.high
    if step_s is not None and before.low is not None and high is not None:
        steps = f"{units.seconds(step_s)} {of_what} against {units.seconds(step_s / middle)}"
        span = f"{_percent(middle)}, {_percent(low)} to {_percent(high)}"
        text = f"{steps} at {name} ({span}, limit {units.share(most)})"
        if low > 1 + max(most, noise):
            outcome, text = "failed", f"check failed: slower: {text}"
        elif high < 1 + max(most, noise) and noise <= max(most, DIFFERENCE):
            outcome, text = "passed", f"check passed: {text}"
        else:
            text = f"check cannot tell: {text}; {UNTOLD}"
    if before.same_training is False:
        text += "; the two train something else"
    change = middle - 1
    status = int(outcome == "failed" or (strict and outcome == "undecided"))
    reason = Reason("time", outcome, text, change, most)
    times = (
        None
        if step_s is None
        else CheckedTimes(
            basis="whole run" if whole_s else "step",
            before_s=step_s / middle,
            after_s=step_s,
            change=change,
        )
    )
    against = Compared(name, "", "", trainperf.__version__, "", os.uname().nodename, 1)
    return Check(outcome, status, text, (reason,), times, 1, against)


def _percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f} %"

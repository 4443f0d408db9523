"""The changes that are faster and make the training another one, with what was measured of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from trainperf.fixes import HEADINGS, by_id
from trainperf.model import ExperimentChange, ExperimentWay, Finding, Loop, Outcome, Patch, Trial
from trainperf.model.experiments import WorkUnit

IN_A_PARAGRAPH = re.compile(r"(?<!\n)\n(?![\n-])")
"""Ends of lines that neither end a paragraph nor begin an item."""

KEEPS = "It was to keep the numbers, but {}."


def experiment_changes(
    apart: Iterable[tuple[Trial, Patch]],
    findings: Mapping[str, Finding],
    trials: Sequence[Trial],
    step_s: float | None,
    loop: Loop,
) -> tuple[ExperimentChange, ...]:
    """The changes of `apart`, each with the patch that makes it alone; what gives most first.

    `findings` are by id, `trials` all that were made. `step_s` is what a step of the script as it
    is took in them, in seconds; `loop` says how many real tokens or samples it holds.
    """
    if not step_s:
        return ()
    work: dict[WorkUnit, float | None] = {
        "real tokens": loop.real_tokens,
        "samples": loop.batch_size,
        "steps": 1,
    }
    unit, amount = next((unit, amount) for unit, amount in work.items() if amount)
    before = amount / step_s
    made = [
        ExperimentChange(
            finding=findings[trial.fix],
            why=_why(trial),
            losses_differ=trial.outcome is Outcome.LOSSES_DIFFER,
            unit=unit,
            before_per_s=before,
            ways=tuple(_ways(trial, trials, before)),
            patch=patch,
        )
        for trial, patch in apart
        if trial.fix in findings
    ]
    return tuple(sorted(made, key=lambda one: -one.ways[0].speedup))


def _why(trial: Trial) -> str:
    """The reason why it is another training: its losses differ, or it changes it by design."""
    if trial.outcome is Outcome.LOSSES_DIFFER:
        return KEEPS.format((trial.reason or trial.parity).rstrip("."))
    fix = by_id().get(trial.fix)
    text = fix.documentation if fix is not None else ""
    changes = text.partition(HEADINGS[1])[2].partition(HEADINGS[2])[0].strip()
    return IN_A_PARAGRAPH.sub(" ", changes)


def _ways(made: Trial, trials: Sequence[Trial], before: float) -> Iterator[ExperimentWay]:
    """The way that is made, then the others that pay."""
    others = (one for one in trials if one.fix == made.fix and one.outcome is Outcome.CHANGES)
    for one in (made, *(other for other in others if other.variant != made.variant)):
        if one.speedup is None or one.low is None or one.high is None:
            continue
        yield ExperimentWay(
            variant=one.variant,
            speedup=one.speedup,
            low=one.low,
            high=one.high,
            pairs=one.pairs,
            steps=one.steps,
            after_per_s=before * one.speedup,
            after_low_per_s=before * one.low,
            after_high_per_s=before * one.high,
        )

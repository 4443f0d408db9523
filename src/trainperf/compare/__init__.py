"""Compare two diagnoses: what changed, beyond the noise. Pure."""

from __future__ import annotations

from dataclasses import replace

from trainperf.compare import circumstances, figures, outcomes
from trainperf.compare.values import (
    Amount,
    Change,
    Comparison,
    Difference,
    FindingChange,
    Side,
    TrialChange,
)
from trainperf.model import Diagnosis

__all__ = [
    "Amount",
    "Change",
    "Comparison",
    "Difference",
    "FindingChange",
    "Side",
    "TrialChange",
    "compare",
]


def compare(a: Diagnosis, b: Diagnosis) -> Comparison:
    """Say what is different in `b` against `a`; never raises, whatever they lack.

    A difference of two figures counts where their 95 % intervals do not meet.
    """
    by_samples = circumstances.other_batch(a, b)
    remarks = circumstances.remarks(a, b)
    refusals = circumstances.refusals(a, b)
    if by_samples:
        told = f"the batch size went from {circumstances.batch(a)} to {circumstances.batch(b)}"
        remarks = (f"{told}: compare samples per second, not the times of a step", *remarks)
    return Comparison(
        before=_side(a),
        after=_side(b),
        basis="samples" if by_samples else "step",
        times=_judged(figures.times(a, b, by_samples), refusals),
        stages=_judged(figures.stages(a, b, by_samples), refusals),
        step_parts=_judged(figures.step_parts(a, b, by_samples), refusals),
        utilization=_judged(figures.utilization(a, b), refusals),
        findings=outcomes.findings(a, b),
        trials=outcomes.trials(a, b),
        settings=circumstances.settings(a, b),
        machine=circumstances.machine(a, b),
        refusals=refusals,
        remarks=remarks,
        neighbours=circumstances.neighbours(a, b),
    )


def _judged(changes: tuple[Change, ...], refusals: tuple[str, ...]) -> tuple[Change, ...]:
    """The figures without a judgement where other circumstances may be all that differs."""
    if not refusals:
        return changes
    return tuple(
        one if one.reason else replace(one, outside=None, reason="of other circumstances")
        for one in changes
    )


def _side(diagnosis: Diagnosis) -> Side:
    verdict = diagnosis.verdict
    return Side(diagnosis.script, diagnosis.created, verdict.text, verdict.bottleneck)

"""Other processes that took cores, where they took enough to bear on what was measured."""

from __future__ import annotations

from trainperf.model import Diagnosis, Outcome

BUSY = 0.15
"""Cores others kept busy, as a share of those we may use, from which it is said."""

LEAST = 0.3
"""Cores below which it is not said on a small machine either."""


def took(others: float | None, cores: float) -> str:
    """Say how many cores others took; "" where they are few, or that was not told."""
    if others is None or others <= max(LEAST, BUSY * cores):
        return ""
    return f"neighbours took about {others:.1f} of {cores:.3g} cores"


def beside_trials(diagnosis: Diagnosis) -> str:
    """Say what a busy machine makes of changes that came out without an effect; "" if nothing."""
    if all(one.outcome is not Outcome.NO_EFFECT for one in diagnosis.trials):
        return ""
    seen: list[tuple[float | None, str]] = []
    if diagnosis.trying is not None:
        seen.append((diagnosis.trying.neighbours_cores, "when the trials began"))
    if diagnosis.parallel is None:  # else the other ranks of the job may be those that took them
        timed = (use for use in diagnosis.utilization if use.phase == "real")
        seen += [(use.others_cores, "while the steps were timed") for use in timed]
    for others, when in seen:
        if told := took(others, diagnosis.machine.cores):
            return f"{told.capitalize()} {when}: what had no measurable effect may have one."
    return ""

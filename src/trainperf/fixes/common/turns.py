"""Whole turns of what a script repeats, for trials of what is saved outside its steps."""

from __future__ import annotations

from typing import Any

from trainperf.model import Evidence, Missing

FEWEST_TURNS = 24
"""A leg of a trial ends with the training: it needs so many turns for its slices."""


def outside_steps(evidence: Evidence) -> dict[str, Any]:
    """Return what a finding's data says of how it is tried; nothing where it saves in steps.

    A turn of a long training is a slice; of a short one nothing can be compared.
    """
    turn, loop, length = evidence.outside, evidence.loop, evidence.length_
    if turn.turn in ("step", "evaluation", "pause"):
        return {}
    turns: int | None = None
    if not isinstance(length, Missing):
        turns = length.fits if turn.turn == "fit" else length.epochs
    if not turns or turns < FEWEST_TURNS or loop.steps_per_execution > 1:
        return {"outside": True}
    epoch = {"steps": turn.steps, "seconds": turn.seconds, "pause_s": 0.0, "written": True}
    return {"epoch": epoch}

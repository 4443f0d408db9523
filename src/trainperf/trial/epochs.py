"""Slices that hold whole epochs, for fixes that save between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trainperf.model import Finding
from trainperf.model.run import Epoch
from trainperf.trial.slices import Slice

if TYPE_CHECKING:
    from trainperf.trial.budget import Costs
    from trainperf.trial.candidates import Candidate, Skipped

RANKS = (
    "what it saves lies between epochs, and slices of whole epochs are only made where one "
    "process trains"
)
LONG_BUDGET_S = 3600.0
"""A budget beyond an hour is not offered."""


@dataclass(frozen=True)
class Slicing:
    """The candidates that can be tried, in slices of whole epochs if `costs` has one.

    `said` tells the reader what the slices hold; "" for a few steps. `budget_needed_s`
    is the budget, in seconds, that would have let the skipped ones be tried, if any would.
    """

    chosen: tuple[Candidate, ...]
    skipped: tuple[Skipped, ...]
    costs: Costs
    said: str = ""
    budget_needed_s: float | None = None


def epoch_of(finding: Finding) -> Epoch | None:
    """The epoch that a finding gives with its data; None if it gives none."""
    given = finding.data.get("epoch")
    return None if given is None else Epoch(**given)


def epochs_of_slice(epoch: Epoch, step_s: float, slice_s: float) -> int:
    """How many whole epochs make a slice of at least `slice_s`, of steps of `step_s` seconds."""
    return max(1, math.ceil(slice_s / max(epoch.steps * step_s, 1e-6)))


def with_pause(piece: Slice, epoch: Epoch) -> Slice | str:
    """The slice as long as its epochs take in the script, or why that cannot be told.

    A leg opens its input anew within one epoch of the script, so that its training does
    not end; what else comes between epochs (validation) is added as it was observed.
    """
    if piece.epochs is None or piece.epochs * epoch.steps != piece.steps:
        return f"its epochs do not all have {epoch.steps:,} steps, so none could be compared"
    return replace(piece, seconds=piece.seconds + piece.epochs * epoch.pause_s)


def choose_slices(
    chosen: Sequence[Candidate], costs: Costs, left: float, spent: float, ranks: int
) -> Slicing:
    """Decide what slices hold: whole epochs if a candidate needs them and all fit then.

    `left` and `spent` are seconds of the budget. If they do not fit, the candidates that
    need them are skipped with the budget that would do: for the others short slices are
    the better measure, or the only one that fits.
    """
    from trainperf.trial.budget import affordable, budget_needed

    wanting = [one for one in chosen if one.epoch is not None]
    if not wanting:
        return Slicing(tuple(chosen), (), costs)
    epoch = wanting[0].epoch
    assert epoch is not None
    others = tuple(one for one in chosen if one.epoch is None or one.in_steps)
    lost = [one for one in wanting if not one.in_steps]
    if ranks > 1:
        return Slicing(others, tuple(one.skipped(RANKS) for one in lost), costs)
    step_s = epoch.seconds / epoch.steps
    whole = replace(costs, epoch=epoch, step_s=step_s, epoch_s=epoch.seconds)
    waits = max(one.warm_up_epochs for one in chosen)
    if affordable(whole, left, len(chosen), waits) == len(chosen):
        said = f"whole epochs ({epoch.steps:,} step{'s' if epoch.steps > 1 else ''} each)"
        return Slicing(tuple(chosen), (), whole, said)
    if not lost:
        return Slicing(others, (), costs)
    needed = budget_needed(spent, whole, len(chosen), waits)
    reason = f"what it saves lies between epochs, and one takes {epoch.seconds:.1f} s: "
    offered = needed if needed <= LONG_BUDGET_S else None
    if offered is None:
        reason += "whole ones are too long to be compared"
    else:
        reason += f"to compare whole ones would need --budget {needed:.0f}s"
    skipped = tuple(one.skipped(reason) for one in lost)
    return Slicing(others, skipped, costs, budget_needed_s=offered)

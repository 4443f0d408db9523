"""The content of slices: steps, or whole epochs where those alone tell the truth. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trainperf.model import Evidence, Trial
from trainperf.recording.run import Epoch
from trainperf.trial.budget import Costs, affordable, budget_needed
from trainperf.trial.candidates import Candidate

RANKS = (
    "what it saves lies between epochs, and slices of whole epochs are only made where one "
    "process trains"
)
MORE_IN_STEPS = (
    "what it saves lies outside the training steps, and other changes promise more within them"
)
MORE_OUTSIDE = "what it saves lies between epochs, and what is done outside them promises more"
LONG_BUDGET_S = 3600.0
"""A budget beyond an hour is not offered."""
FEW = 4
"""Slices hold whole epochs where so many candidates can be tried in them."""
FEWER = 2
"""The same where slices of steps would tell next to nothing, or what promises most shows only in
whole epochs."""
SHORT_STEPS = 40
"""Workers have a good part of an epoch of so few steps ready before its first one."""
RESTART_SHARE = 0.05
"""Opening the input for so large a share of an epoch's steps is part of what they cost."""
FILL_SHARE = 0.25
"""The same for tf.data, whose buffers hold little unless a shuffle fills one. Then no two steps
are alike: the first ones wait, and the last ones find all that they need in the buffer. A script
with epochs of 36 steps (620 ms) that began by filling one for 430 ms met itself in slices of 17
steps at 0.40 to 2.76 times its speed."""


@dataclass(frozen=True)
class Slicing:
    """The candidates that can be tried, in slices of whole epochs if `costs` has one.

    `said` tells the reader what the slices hold; "" for a few steps. `budget_needed_s`
    is the budget, in seconds, that would have let the skipped ones be tried, if any would.
    `then` is what is tried after that, in other slices, where nothing was kept. Steps are
    `in_steps` of the seconds of a slice: so much of it can what acts on steps alone save.
    """

    chosen: tuple[Candidate, ...]
    skipped: tuple[Trial, ...]
    costs: Costs
    said: str = ""
    budget_needed_s: float | None = None
    then: Slicing | None = None
    in_steps: float = 1.0


def choose_slices(
    chosen: Sequence[Candidate],
    evidence: Evidence,
    costs: Costs,
    left: float,
    spent: float,
    ranks: int,
) -> Slicing:
    """Decide what slices hold: whole epochs where a few steps would not tell the truth.

    So where a candidate saves between epochs, and where epochs are short: their first steps
    come from buffers that filled while the input was opened, which no slice of steps counts.
    `left` and `spent` are seconds of the budget. Where whole epochs do not fit, candidates
    that need them are skipped with the budget that would do.
    """
    written = [one for one in chosen if one.epoch is not None and one.epoch.written]
    if written:
        return _in_turns(chosen, written, evidence, costs, left, spent, ranks)
    wanting = [one for one in chosen if one.epoch is not None]
    short = short_epoch(evidence)
    epoch = wanting[0].epoch if wanting else short
    if epoch is None:
        return Slicing(tuple(chosen), (), costs)
    others = tuple(one for one in chosen if one.epoch is None or one.in_steps)
    lost = tuple(one for one in wanting if not one.in_steps)
    if ranks > 1:
        return Slicing(others, tuple(one.skipped(RANKS) for one in lost), costs)
    whole = _whole(costs, epoch)
    share = _in_steps(costs, epoch)
    said = f"whole epochs ({epoch.steps:,} step{'s' if epoch.steps > 1 else ''} each)"
    tensorflow = evidence.torch_ is None
    if lost and tensorflow and short is None and _promises_more(others, lost, share):
        # Slices of whole epochs of tf.data vary several times as much: these would hide the others.
        skipped = tuple(one.skipped(MORE_IN_STEPS) for one in lost)
        return Slicing(others, skipped, costs, then=Slicing(lost, (), whole, said, in_steps=share))
    first = bool(lost) and not _promises_more(others, lost, share)
    few = min(FEWER if first or (tensorflow and short is not None) else FEW, len(chosen))
    warm_up = max(one.warm_up_epochs for one in chosen)
    if affordable(whole, left, few, warm_up) >= few:
        return Slicing(tuple(chosen), (), whole, said, in_steps=share)
    if not lost:
        return Slicing(others, (), costs)
    needed = budget_needed(spent, whole, few, warm_up)
    reason = f"what it saves lies between epochs, and one takes {epoch.seconds:.1f} s: "
    offered = needed if needed <= LONG_BUDGET_S else None
    if offered is None:
        reason += "whole ones are too long to be compared"
    else:
        reason += f"to compare whole ones would need --budget {needed:.0f}s"
    skipped = tuple(one.skipped(reason) for one in lost)
    return Slicing(others, skipped, costs, budget_needed_s=offered)


def _whole(costs: Costs, epoch: Epoch) -> Costs:
    """The costs with slices of whole epochs."""
    step_s = epoch.seconds / epoch.steps
    return replace(costs, epoch=epoch, step_s=step_s, epoch_s=epoch.seconds)


def _in_steps(costs: Costs, epoch: Epoch) -> float:
    """The share of an epoch's seconds, with what follows it, that its steps take."""
    return min(1.0, costs.step_s * epoch.steps / epoch.seconds)


def of_whole(candidate: Candidate, gain: float, in_steps: float) -> float:
    """What a gain is worth in slices of which steps are so much; the same where it is theirs."""
    if candidate.epoch is not None:
        return gain
    return 1 / (1 - in_steps * (1 - 1 / gain)) if gain > 0 else gain


def _promises_more(others: Sequence[Candidate], than: Sequence[Candidate], in_steps: float) -> bool:
    """Whether one that leaves the experiment as it is may give more than any of some others."""
    most = max(one.bound or math.inf for one in than)
    return any(of_whole(one, one.bound or 0.0, in_steps) > most for one in others if not one.apart)


def _in_turns(
    chosen: Sequence[Candidate],
    written: Sequence[Candidate],
    evidence: Evidence,
    costs: Costs,
    left: float,
    spent: float,
    ranks: int,
) -> Slicing:
    """Slices of whole turns as they are written, for what saves outside the training steps.

    Only where nothing that saves within steps promises more: each slice takes as long as a turn.
    """
    rest = [one for one in chosen if one not in written]
    epoch = written[0].epoch
    assert epoch is not None
    whole = _whole(costs, epoch)
    share = _in_steps(costs, epoch)
    said = f"whole turns as they are written ({epoch.steps:,} steps each)"
    reason, needed = "", None
    if ranks > 1:
        reason = RANKS
    elif _promises_more(rest, written, share):
        reason = MORE_IN_STEPS
    elif not affordable(whole, left, 1):
        needed = budget_needed(spent, whole, 1)
        needed = needed if needed <= LONG_BUDGET_S else None
        reason = f"what it saves lies outside the steps, and a turn takes {epoch.seconds:.1f} s" + (
            f": to compare whole ones would need --budget {needed:.0f}s" if needed else ""
        )
    if not reason:
        others = (one for one in rest if one.epoch is None or one.in_steps)
        lost = (one.skipped(MORE_OUTSIDE) for one in rest if one.epoch and not one.in_steps)
        return Slicing((*written, *others), tuple(lost), whole, said, in_steps=share)
    found = choose_slices(rest, evidence, costs, left, spent, ranks)
    skipped = (*found.skipped, *(one.skipped(reason) for one in written))
    alone = Slicing(tuple(written), (), whole, said, in_steps=share)
    later = alone if reason == MORE_IN_STEPS else found.then
    needed = needed or found.budget_needed_s
    return replace(found, skipped=skipped, budget_needed_s=needed, then=later)


def short_epoch(evidence: Evidence) -> Epoch | None:
    """The epoch of a script whose epochs are so short that slices have to hold whole ones.

    So for a `DataLoader`, whose workers start anew with each epoch and have their first batches
    ready before its first step. What tf.data holds ready is little, and slices of whole epochs
    vary five times as much (control ±20 % against ±4 % on one script), unless a good part of the
    epoch comes from a buffer that was filled before its first step. What else passes between
    epochs (validation) is left out: no candidate changes it.
    """
    between, steps = evidence.between_epochs, evidence.loop.epoch_steps
    if not steps or between is None or between.restart_s is None:
        return None
    seconds = steps * evidence.times.real
    if evidence.torch_ is None:
        short = between.restart_s >= FILL_SHARE * seconds
    else:
        short = steps <= SHORT_STEPS or between.restart_s >= RESTART_SHARE * seconds
    return Epoch(steps, seconds + between.restart_s) if short else None

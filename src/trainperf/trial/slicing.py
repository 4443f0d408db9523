"""The content of slices: steps, or whole epochs where those alone tell the truth. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trainperf.model import Evidence, Trial
from trainperf.recording.run import Epoch
from trainperf.trial.budget import Costs, budget_needed
from trainperf.trial.candidates import Candidate
from trainperf.trial.ratio import FEWEST

RANKS = (
    "what it saves lies between epochs, and slices of whole epochs are only made where one "
    "process trains"
)
LONG_BUDGET_S = 3600.0
"""A budget beyond an hour is not offered."""
FEW = 2
"""What shows in steps as well has slices of whole epochs where so many could be tried in them."""
LONG_EPOCH_S = 3.0
"""Of epochs that take so long most slices of steps hold no start of one."""
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
    """The candidates that can be tried, each with what its slices hold.

    `budget_needed_s` is the budget, in seconds, that would have let the skipped ones be tried, if
    any would.
    """

    chosen: tuple[Candidate, ...]
    skipped: tuple[Trial, ...] = ()
    budget_needed_s: float | None = None


def slices_text(candidates: Sequence[Candidate]) -> str:
    """What the candidates' slices hold, told to the reader; "" where all hold a few steps."""
    kinds: dict[Epoch | None, list[str]] = {}
    for candidate in candidates:
        kinds.setdefault(candidate.holds, []).append(candidate.fixes[0])
    if len(kinds) == 1:
        return "".join(_text(epoch) for epoch in kinds if epoch is not None)
    parts = [
        f"{_text(epoch)} for {', '.join(dict.fromkeys(names))}"
        for epoch, names in kinds.items()
        if epoch is not None
    ]
    return " and ".join((["a few steps"] if None in kinds else []) + parts)


def _text(epoch: Epoch) -> str:
    each = f"({epoch.steps:,} step{'s' if epoch.steps > 1 else ''} each)"
    return f"whole {'turns as they are written' if epoch.written else 'epochs'} {each}"


def choose_slices(
    chosen: Sequence[Candidate],
    evidence: Evidence,
    costs: Costs,
    left: float,
    spent: float,
    ranks: int,
) -> Slicing:
    """Decide what the slices of each candidate hold: whole epochs where steps would not tell.

    So where it saves between epochs, or outside the steps of a turn, and where epochs are short:
    their first steps come from buffers that filled while the input was opened, which no slice of
    steps counts. `left` and `spent` are seconds of the budget. A candidate that needs whole epochs
    is skipped where they do not fit, with the budget that would do.
    """
    short = short_epoch(evidence)
    of_findings = [one.epoch for one in chosen if one.epoch is not None]
    turn = next((epoch for epoch in of_findings if epoch.written), None)
    epoch = next((epoch for epoch in of_findings if not epoch.written), short)
    made, skipped, needed = list[Candidate](), list[Trial](), None
    for candidate in chosen:
        own = candidate.epoch
        wanted = turn if own is not None and own.written else epoch
        outside = own is not None and (own.written or not candidate.in_steps)
        of_short = short is not None and (candidate.input or short.seconds < LONG_EPOCH_S)
        if wanted is None or not (outside or own or of_short) or (ranks > 1 and not outside):
            made.append(candidate)
        elif ranks > 1:
            skipped.append(candidate.skipped(RANKS))
        elif _fits(candidate, costs.holding(wanted), left, outside):
            made.append(replace(candidate, holds=wanted))
        elif not outside:
            made.append(candidate)
        else:
            whole = costs.holding(wanted)
            budget = budget_needed(spent, whole, 1, candidate.warm_up_epochs)
            offered = budget if budget <= LONG_BUDGET_S else None
            skipped.append(candidate.skipped(_too_long(wanted, offered)))
            needed = max(needed or 0.0, offered) if offered else needed
    return Slicing(tuple(made), tuple(skipped), needed)


def _fits(candidate: Candidate, whole: Costs, left: float, alone: bool) -> bool:
    """Whether there is time for slices of whole epochs.

    For the fewest that can tell where they `alone` do: others have theirs before. Else for `FEW`.
    """
    epochs = candidate.warm_up_epochs
    if alone:
        return whole.starting(2, epochs) + whole.comparing(1, FEWEST) <= left
    return whole.trying(FEW, epochs) <= left


def _too_long(epoch: Epoch, budget_s: float | None) -> str:
    place, what = ("outside the steps", "a turn") if epoch.written else ("between epochs", "one")
    reason = f"what it saves lies {place}, and {what} takes {epoch.seconds:.1f} s: "
    if budget_s is None:
        return reason + "whole ones are too long to be compared"
    return reason + f"to compare whole ones would need --budget {budget_s:.0f}s"


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

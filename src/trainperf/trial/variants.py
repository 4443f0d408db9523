"""Trials sorted out: the best way of each fix, what is kept, what makes another experiment."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from trainperf.model import Finding, Outcome, Trial
from trainperf.trial.candidates import Candidate
from trainperf.trial.outcome import Baseline, Measured, floor, trial
from trainperf.trial.parity import Losses
from trainperf.trial.turns import AS_GOOD

PAYS = (Outcome.KEPT, Outcome.CHANGES, Outcome.LOSSES_DIFFER)
"""Outcomes of what may be written: in the patch, or by its name."""

APART = "in no patch, as it changes the experiment: `trainperf fix --only {}` makes it"


@dataclass(frozen=True)
class SortedOut:
    """The trials of all fixes, each alone.

    `best` is the trial of each fix by its id, of several variants the best; `others` are
    those of the rest. `winners` are the kept ones as they go on the stack, and `choices`
    the findings with the variant that is the best, of all that had several.
    """

    best: Mapping[str, Trial]
    others: tuple[Trial, ...]
    winners: tuple[Measured, ...]
    choices: Mapping[str, Finding]


def sort_out(
    measured: Sequence[Measured],
    candidates: Sequence[Candidate],
    baseline: Baseline,
    why_late: str,
    steps: int | None = None,
) -> SortedOut:
    """Judge each candidate, and of the variants of a fix choose the fastest that is kept.

    `steps` are those of the whole training, None where its length is not known: what costs more
    once than so many steps save is not kept.
    """
    best: dict[str, tuple[Trial, Measured, Candidate]] = {}
    others: list[Trial] = []
    for one, candidate in zip(measured, candidates, strict=True):
        fix = candidate.fixes[0]
        found = trial(one, candidate.equivalence, candidate.bound, baseline, why_late)
        found = replace(found, fix=fix, variant=candidate.variant)
        found = _in_the_whole_training(found, steps)
        if candidate.apart and found.kept:
            found = replace(found, outcome=Outcome.CHANGES, reason=APART.format(fix), kept=False)
        before = best.get(fix)
        if before is None:
            best[fix] = found, one, candidate
        elif _beats(found, before[0]):
            others.append(_beaten(before[0], found))
            best[fix] = found, one, candidate
        else:
            others.append(_beaten(found, before[0]))
    kept = {fix: entry for fix, entry in best.items() if entry[0].kept}
    return SortedOut(
        best={fix: entry[0] for fix, entry in best.items()},
        others=tuple(others),
        winners=tuple(replace(one, name=fix) for fix, (_, one, _) in kept.items()),
        choices={
            fix: candidate.finding
            for fix, (found, _, candidate) in best.items()
            if candidate.finding is not None and found.outcome in PAYS
        },
    )


def of_another(
    trials: Iterable[Trial],
    measured: Sequence[Measured],
    candidates: Sequence[Candidate],
    baseline: Baseline,
) -> Iterator[Trial]:
    """Those of the trials whose fix makes another experiment of the script, and pays.

    Those that change it by what they are, and those that were to keep its numbers but trained
    otherwise. One whose losses are no numbers any more trains nothing, and is none of them.
    """
    broken = {
        (one.fixes[0], one.variant)
        for found, one in zip(measured, candidates, strict=True)
        if not _finite(found.losses) and _finite(baseline.losses)
    }
    least = 1 + floor(baseline.control)
    for one in trials:
        differs = one.outcome is Outcome.LOSSES_DIFFER and (one.low or 0.0) > least
        if (differs or one.outcome is Outcome.CHANGES) and (one.fix, one.variant) not in broken:
            yield one


def _in_the_whole_training(found: Trial, steps: int | None) -> Trial:
    """The trial as it stands for a training of so many steps."""
    even = found.break_even_steps
    if not found.kept or steps is None or even is None or even <= steps:
        return found
    reason = (
        f"the {found.one_off_s:.1f} s that it costs once are earned back after {even:,} steps, "
        f"and this training has {steps:,}"
    )
    return replace(found, outcome=Outcome.LOSES, reason=reason, kept=False)


def _beats(found: Trial, best: Trial) -> bool:
    """Whether a way is better than the best of those before it.

    Of ways that change the experiment the ones before change it less: more of it must pay.
    """
    if found.outcome is best.outcome is Outcome.CHANGES:
        return (found.speedup or 0.0) > AS_GOOD * (best.speedup or 0.0)
    return _rank(found) > _rank(best)


def _rank(found: Trial) -> tuple[bool, float]:
    return found.outcome in (Outcome.KEPT, Outcome.CHANGES), found.speedup or 0.0


def _beaten(found: Trial, by: Trial) -> Trial:
    if found.outcome is Outcome.CHANGES:
        more = (by.speedup or 0.0) > (found.speedup or 0.0)
        gives = "gives more" if more else "gives hardly less, and changes less"
        return replace(found, reason=f"{by.variant} {gives}")
    if not found.kept:
        return found
    return replace(found, outcome=Outcome.REDUNDANT, reason=f"{by.variant} gives more", kept=False)


def _finite(losses: Losses | None) -> bool:
    values: Mapping[int, float] = {} if losses is None else losses.values
    return all(math.isfinite(one) for one in values.values())

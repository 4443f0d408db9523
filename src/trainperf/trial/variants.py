"""Trials sorted out: the best way of each fix, what is kept, what makes another experiment."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from trainperf.model import Finding, Outcome, Trial
from trainperf.recording.run import Epoch
from trainperf.trial.contest import AS_GOOD
from trainperf.trial.outcome import Baseline, Measured, floor, trial
from trainperf.trial.parity import Losses

PAYS = (Outcome.KEPT, Outcome.CHANGES, Outcome.LOSSES_DIFFER)
"""Outcomes of what may be written: in the patch, or by its name."""

BaselineOf = Callable[[Epoch | None], Baseline]
"""The unchanged script as measured in slices that hold such epochs, or steps."""

APART = "in no patch, as it changes the experiment: `trainperf fix --only {}` makes it"


@dataclass(frozen=True)
class SortedOut:
    """The trials of all fixes, each alone.

    `best` is the trial of each fix by its id, of several variants the best; `others` are
    those of the rest. `winners` are the kept ones as they go on the stack, the best first: that
    with which the whole training takes least, what it costs once counted. `choices` are
    the findings with the variant that is the best, of all that had several.
    """

    best: Mapping[str, Trial]
    others: tuple[Trial, ...]
    winners: tuple[Measured, ...]
    choices: Mapping[str, Finding]


def sort_out(
    measured: Sequence[Measured],
    baseline_of: BaselineOf,
    why_late: str,
    steps: int | None = None,
) -> SortedOut:
    """Judge each candidate, and of the variants of a fix choose the best that is kept.

    That is the fastest. Where the length of the whole training is known, `steps`, it is the one
    with which that takes least, and what costs more once than it saves there is not kept.
    """
    ways = defaultdict[str, list[_Way]](list)
    for one in measured:
        way = _way(one, baseline_of(one.holds), why_late, steps)
        ways[way.found.fix].append(way)
    best, others = dict[str, _Way](), list[Trial]()
    for fix, alike in ways.items():
        first, *rest = alike
        for way in rest:
            first = way if way.beats(first) else first
        best[fix] = first
        others += [_beaten(way, first) for way in alike if way is not first]
    kept = [way for way in best.values() if way.found.kept]
    if len({way.measured.holds for way in kept}) < 2:  # what takes least comes first
        kept.sort(key=lambda way: (way.whole_s, -way.speedup))
    else:  # what saves most
        kept.sort(key=lambda way: -way.measured.candidate.saves(way.speedup))
    return SortedOut(
        best={fix: way.found for fix, way in best.items()},
        others=tuple(others),
        winners=tuple(way.measured for way in kept),
        choices={
            fix: way.measured.candidate.finding
            for fix, way in best.items()
            if way.measured.candidate.finding is not None and way.found.outcome in PAYS
        },
    )


@dataclass(frozen=True)
class _Way:
    """A way to make a fix: its trial, and seconds of the whole training with it, 0 if not known."""

    found: Trial
    measured: Measured
    whole_s: float

    @property
    def speedup(self) -> float:
        """What it gives, 0 if that is not known."""
        return self.found.speedup or 0.0

    def beats(self, before: _Way) -> bool:
        """Whether it is better than the best of those before it.

        What pays comes first, then that with which the whole training takes least. Of ways that
        change the experiment the ones before change it less: more of it must pay.
        """
        if self.found.outcome is before.found.outcome is Outcome.CHANGES:
            return self.speedup > AS_GOOD * before.speedup
        pays, paid = (
            way.found.outcome in (Outcome.KEPT, Outcome.CHANGES) for way in (self, before)
        )
        if pays != paid:
            return pays
        order = (-self.whole_s, self.speedup) > (-before.whole_s, before.speedup)
        return order if pays else self.speedup > before.speedup


def _way(one: Measured, baseline: Baseline, why_late: str, steps: int | None) -> _Way:
    """A way as it stands for a training of so many steps."""
    found = trial(one, baseline, why_late)
    even, seconds = found.break_even_steps, found.one_off_s
    if found.kept and one.candidate.apart:
        found = found.dropped(Outcome.CHANGES, APART.format(found.fix))
    elif found.kept and steps is not None and even is not None and even > steps:
        reason = (
            f"the {seconds:.1f} s that it costs once are earned back after {even:,} steps, "
            f"and this training has {steps:,}"
        )
        found = found.dropped(Outcome.LOSES, reason)
    whole_s = 0.0
    if steps is not None and found.speedup is not None:
        whole_s = steps * baseline.step_s / max(found.speedup, 1e-9) + (seconds or 0.0)
    return _Way(found, one, whole_s)


def of_another(
    trials: Iterable[Trial],
    measured: Sequence[Measured],
    baseline_of: BaselineOf,
) -> Iterator[Trial]:
    """Those of the trials whose fix makes another experiment of the script, and pays.

    Those that change it by what they are, and those that were to keep its numbers but trained
    otherwise. One whose losses are no numbers any more trains nothing, and is none of them.
    """
    named = {(one.candidate.fixes[0], one.candidate.variant): one for one in measured}
    for one in trials:
        found = named.get((one.fix, one.variant))
        if found is None:  # it was measured on top of others only
            continue
        usual = baseline_of(found.holds)
        gains = (one.low or 0.0) > 1 + floor(usual.control)
        differs = one.outcome is Outcome.LOSSES_DIFFER and gains
        broken = _finite(usual.losses) and not _finite(found.losses)
        if (differs or one.outcome is Outcome.CHANGES) and not broken:
            yield one


def _beaten(way: _Way, by: _Way) -> Trial:
    found, better = way.found, by.found.variant
    more = by.speedup > way.speedup
    if found.outcome is Outcome.CHANGES:
        gives = "gives more" if more else "gives hardly less, and changes less"
        return replace(found, reason=f"{better} {gives}")
    if not found.kept:
        return found
    gives = "gives more" if more else "costs less once, and the whole training ends sooner with it"
    return found.dropped(Outcome.REDUNDANT, f"{better} {gives}")


def _finite(losses: Losses | None) -> bool:
    values: Mapping[int, float] = {} if losses is None else losses.values
    return all(math.isfinite(one) for one in values.values())

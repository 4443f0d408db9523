"""Winners put together, best first: what is kept is what pays on top of the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from trainperf.model import Outcome, Ratio
from trainperf.recording.run import Epoch
from trainperf.trial.budget import Clock
from trainperf.trial.candidates import Candidate
from trainperf.trial.legs.faults import LegFailed
from trainperf.trial.outcome import Baseline, Measured, Start, floor
from trainperf.trial.parity import judge
from trainperf.trial.ratio import FEWEST, Pair, ratio

Join = Callable[[Sequence[str]], Candidate | str]
"""Makes the candidate of several fixes together, or says why they do not go together."""


class Dropped(NamedTuple):
    """Why a fix that pays alone is not in the stack."""

    outcome: Outcome
    reason: str


@dataclass(frozen=True)
class Stacked:
    """The fixes that go into the patch, what they give together, and who was dropped.

    `ratio` is None where there are no fixes; it is of slices that hold such epochs, or steps.
    `start` is how long they took to start. `gains` say what fixes give on top of those before them.
    Unless they were measured `together` the ratio is the product of two, one on top of the other.
    """

    fixes: tuple[str, ...]
    ratio: Ratio | None
    dropped: Mapping[str, Dropped] = field(default_factory=dict)
    start: Start | None = None
    holds: Epoch | None = None
    gains: Mapping[str, Ratio] = field(default_factory=dict)
    together: bool = True

    def then(self, later: Stacked) -> Stacked:
        """This, and what was kept later on top of it."""
        dropped = {**self.dropped, **later.dropped}
        if self.ratio is None or later.ratio is None:
            return replace(later if self.ratio is None else self, dropped=dropped)
        return Stacked(
            (*self.fixes, *later.fixes),
            _product(self.ratio, later.ratio),
            dropped,
            later.start,
            self.holds or later.holds,
            {**self.gains, **later.gains},
            together=False,
        )


@dataclass(frozen=True)
class Means:
    """The means of measuring stacks in slices that hold such epochs, or steps, until a time."""

    holds: Epoch | None
    baseline: Baseline
    join: Join
    compare: Callable[[Sequence[Candidate], Clock], list[Measured]]
    clock: Clock

    def measured(self, stacks: Sequence[Candidate]) -> tuple[dict[str, Measured], str]:
        """The measurements by name, and the reason where one is missing."""
        if not stacks or self.clock.over():
            return {}, self.clock.reason
        try:
            found = self.compare(stacks, self.clock)
        except LegFailed as failed:
            over = self.clock.over()
            return {}, self.clock.reason if over else f"the script as it is {failed}"
        return {measured.name: measured for measured in found}, self.clock.reason


def stack(
    winners: Sequence[Measured],
    means: Callable[[Epoch | None], Means],
    partners: Sequence[str] = (),
) -> Stacked:
    """Measure the winners together and keep those that pay on top of the better ones.

    `winners` are fixes that were kept alone, the best first, `partners` others that may pay on top
    of them. Those that show in longer slices than the best does come after the others, and what
    there is by then is measured again in theirs.
    """
    if not winners:
        return Stacked((), None)
    top, dropped, gains = winners[0], dict[str, Dropped](), dict[str, Ratio]()
    longer = [winner for winner in winners if _length(winner.holds) > _length(top.holds)]
    alike = [winner.candidate.fixes[0] for winner in winners[1:] if winner not in longer]
    top = _added(top, [*alike, *partners], means(top.holds), dropped, gains, partners)
    if longer:
        holds = max((winner.holds for winner in longer), key=_length)
        names = [winner.candidate.fixes[0] for winner in longer]
        top = _added(top, names, means(holds), dropped, gains)
    fixes = top.candidate.fixes
    dropped = {name: drop for name, drop in dropped.items() if name not in fixes}
    return Stacked(fixes, top.ratio, dropped, top.start, top.holds, gains)


def _length(holds: Epoch | None) -> int:
    """The place of slices of steps, of epochs and of turns by what shows in them."""
    return 0 if holds is None else 1 + holds.written


def _added(
    top: Measured,
    names: Sequence[str],
    means: Means,
    dropped: dict[str, Dropped],
    gains: dict[str, Ratio],
    partners: Sequence[str] = (),
) -> Measured:
    """What pays of some fixes on top of what there is; why another does not goes into `dropped`.

    The stacks of the first, the first two, … are alive together, so that each is compared with the
    one before it. Those after one that adds nothing, or breaks its stack (it fails, or trains
    differently), are measured again without it. Where these give less than what was measured with
    all there was, or there is no time for them, that stays. A partner stays for a sure gain only.
    """
    with_idle, rest = top, list(names)
    while rest:
        stacks = _stacks(top.candidate.fixes, rest, means.join, dropped)
        again = means.join(top.candidate.fixes) if stacks and top.holds != means.holds else ""
        first = [again] if isinstance(again, Candidate) else []
        found, unmeasured = means.measured([*first, *stacks])
        if first and (anew := found.get(first[0].name)) and anew.ratio:
            top = with_idle = anew
        below, rest = top, []
        for at, candidate in enumerate(stacks):
            name, measured = candidate.fixes[-1], found.get(candidate.name)
            drop = _drop(measured, below, means.baseline, unmeasured, sure=name in partners)
            later = [stack.fixes[-1] for stack in stacks[at + 1 :]]
            if drop is None:
                assert measured is not None
                gains[name] = on_top(measured, below)
                if not dropped.keys() & set(candidate.fixes):
                    top = measured
                else:
                    rest.append(name)
                    if not set(partners) & set(candidate.fixes):
                        with_idle = measured
            elif drop.outcome is Outcome.NOT_TRIED:
                dropped.update(dict.fromkeys([name, *later], drop))
                break
            else:
                dropped[name] = drop
                if drop.outcome is not Outcome.REDUNDANT or name in partners:
                    rest += later
                    break
            below = measured or below
    more = _speedup(with_idle) > (1 + floor(means.baseline.control)) * _speedup(top)
    return with_idle if more else top


def _stacks(
    fixes: tuple[str, ...], names: Sequence[str], join: Join, dropped: dict[str, Dropped]
) -> list[Candidate]:
    """What there is and the first, the first two, … of `names`; some may not fit."""
    made = []
    for name in names:
        candidate = join((*fixes, name))
        if isinstance(candidate, str):
            reason = f"does not go together with {', '.join(fixes)}: {candidate}"
            dropped[name] = Dropped(Outcome.NOT_TRIED, reason)
            continue
        fixes = candidate.fixes
        made.append(candidate)
    return made


def _drop(
    measured: Measured | None,
    below: Measured,
    baseline: Baseline,
    unmeasured: str,
    sure: bool,
) -> Dropped | None:
    """Why a stack is not kept on top of the one `below`, for `sure`; None if it pays."""
    others = ", ".join(below.candidate.fixes)
    if measured is None or measured.late or measured.holds != below.holds:
        return Dropped(Outcome.NOT_TRIED, f"not measured on top of {others}: {unmeasured}")
    if measured.failure:
        return Dropped(Outcome.FAILED, f"together with {others}: {measured.failure}")
    equivalence = measured.candidate.equivalence
    judged = judge(equivalence, baseline.losses, measured.losses, baseline.band)
    if judged.ok is False:
        return Dropped(Outcome.LOSSES_DIFFER, f"together with {others}: {judged.text}")
    more, least = on_top(measured, below), 1 + floor(baseline.control)
    if more.speedup > least and more.low > (1 if sure else 1 / least):
        return None
    gain = f"{more.speedup:.2f}× ({more.low:.2f} to {more.high:.2f})"
    return Dropped(Outcome.REDUNDANT, f"on top of {others} it gives {gain}")


def on_top(stacked: Measured, before: Measured) -> Ratio:
    """The gain of one stack over another; both have a ratio.

    From their pairs round by round, as what they share of the noise cancels so. Without
    pairs from the two intervals, as if they were independent: see `_product`.
    """
    pairs = [
        Pair(math.exp(pair.log_ratio), *(math.exp(other.log_ratio),) * 2, pair.steps)
        for pair, other in zip(stacked.pairs, before.pairs, strict=False)
    ]
    if len(pairs) >= FEWEST:
        return ratio(pairs)
    assert stacked.ratio is not None
    assert before.ratio is not None
    other = before.ratio
    inverse = replace(other, speedup=1 / other.speedup, low=1 / other.high, high=1 / other.low)
    return _product(stacked.ratio, inverse)


def _product(first: Ratio, other: Ratio) -> Ratio:
    """One gain times another, as if they were independent.

    The distances of the limits from the estimates add in quadrature (Zou and Donner, "Construction
    of confidence limits about effect measures", Statistics in Medicine 27, 2008).
    """
    gain = first.speedup * other.speedup
    below = math.hypot(math.log(first.speedup / first.low), math.log(other.speedup / other.low))
    above = math.hypot(math.log(first.high / first.speedup), math.log(other.high / other.speedup))
    pairs, steps = min(first.pairs, other.pairs), min(first.steps, other.steps)
    return Ratio(gain, gain * math.exp(-below), gain * math.exp(above), pairs, steps)


def _speedup(measured: Measured) -> float:
    return measured.ratio.speedup if measured.ratio is not None else 0.0

"""Winners put together, best first: what is kept is what pays on top of the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trainperf.model import Outcome, Ratio
from trainperf.recording.run import Epoch
from trainperf.trial.budget import Clock
from trainperf.trial.candidates import Candidate
from trainperf.trial.legs.faults import LegFailed
from trainperf.trial.outcome import Baseline, Measured, Start, floor
from trainperf.trial.parity import judge
from trainperf.trial.ratio import FEWEST, Pair, ratio

Compare = Callable[[Sequence[Candidate], Clock], list[Measured]]
Join = Callable[[Sequence[str]], Candidate | str]
"""Makes the candidate of several fixes together, or says why they do not go together."""


@dataclass(frozen=True)
class Dropped:
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


@dataclass(frozen=True)
class Means:
    """The means of measuring stacks in slices that hold such epochs, or steps, until a time."""

    holds: Epoch | None
    baseline: Baseline
    join: Join
    compare: Compare
    clock: Clock


Top = tuple[tuple[str, ...], Measured]
"""The fixes of a stack, and what they give together."""


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
    best, dropped, gains = winners[0], dict[str, Dropped](), dict[str, Ratio]()
    longer = [winner for winner in winners if _length(winner.holds) > _length(best.holds)]
    alike = [one.candidate.fixes[0] for one in winners[1:] if one not in longer]
    alone = best.candidate.fixes, best
    fixes, top = _added(alone, [*alike, *partners], means(best.holds), dropped, gains, partners)
    if longer:
        holds = max((one.holds for one in longer), key=_length)
        names = [one.candidate.fixes[0] for one in longer]
        fixes, top = _added((fixes, top), names, means(holds), dropped, gains)
    dropped = {name: drop for name, drop in dropped.items() if name not in fixes}
    return Stacked(fixes, top.ratio, dropped, top.start, top.holds, gains)


def _length(holds: Epoch | None) -> int:
    """The place of slices of steps, of epochs and of turns by what shows in them."""
    return 0 if holds is None else 1 + holds.written


def _added(
    top: Top,
    names: Sequence[str],
    means: Means,
    dropped: dict[str, Dropped],
    gains: dict[str, Ratio],
    partners: Sequence[str] = (),
) -> Top:
    """What pays of some fixes on top of what there is; why another does not goes into `dropped`.

    What each that pays gives there goes into `gains`.

    The stacks of the first, the first two, … are alive together, so that each is compared with the
    one before it. A fix that breaks its stack (it fails, or trains differently), or adds nothing to
    it, is left out, and the stacks of those after it are measured again without it. Where that
    cannot be done, or breaks, what adds nothing stays in. What there is no time for is left out.
    """
    (fixes, best), rest, baseline = top, list(names), means.baseline
    with_idle = top
    while rest:
        stacks = _stacks(fixes, rest, means.join, dropped)
        again = means.join(fixes) if stacks and best.holds != means.holds else ""
        first = [again] if isinstance(again, Candidate) else []
        found, unmeasured = _measured([*first, *stacks], means.compare, means.clock)
        if first and (measured_again := found.get(first[0].name)) and measured_again.ratio:
            best = measured_again
            with_idle = fixes, best
        rest = []
        for at, candidate in enumerate(stacks):
            name, measured = candidate.fixes[-1], found.get(candidate.name)
            if measured is None or measured.late or measured.holds != best.holds:
                reason = f"not measured on top of {', '.join(fixes)}: {unmeasured}"
                for later in stacks[at:]:
                    dropped[later.fixes[-1]] = Dropped(Outcome.NOT_TRIED, reason)
                break
            sure = name in partners  # it gave nothing alone
            drop = _breaks(measured, baseline) or _idle(measured, best, fixes, baseline, sure)
            if drop is not None:
                dropped[name] = drop
                rest = [later.fixes[-1] for later in stacks[at + 1 :]]
                if drop.outcome is Outcome.REDUNDANT and not sure:
                    with_idle = _largest(stacks[at:], found, baseline, partners)
                break
            gains[name] = on_top(measured, best)
            fixes, best = candidate.fixes, measured
    if _speedup(with_idle[1]) > (1 + floor(baseline.control)) * _speedup(best):
        return with_idle
    return fixes, best


def _largest(
    stacks: Sequence[Candidate],
    found: Mapping[str, Measured],
    baseline: Baseline,
    partners: Sequence[str],
) -> Top:
    """The largest of some stacks, the first of which adds nothing, that pays and is sound.

    None of `partners` is in it, which give nothing alone.
    """
    fixes, top = stacks[0].fixes, found[stacks[0].name]
    for candidate in stacks[1:]:
        measured = found.get(candidate.name)
        if measured is None or measured.late or _breaks(measured, baseline):
            break
        if candidate.fixes[-1] in partners:
            break
        if _idle(measured, top, fixes, baseline) is None:
            fixes, top = candidate.fixes, measured
    return fixes, top


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
        fixes = (*fixes, name)
        made.append(candidate)
    return made


def _measured(
    stacks: Sequence[Candidate], compare: Compare, clock: Clock
) -> tuple[dict[str, Measured], str]:
    """The measurements by name, and the reason where one is missing."""
    if not stacks or clock.over():
        return {}, clock.reason
    try:
        return {one.name: one for one in compare(stacks, clock)}, clock.reason
    except LegFailed as failed:
        return {}, clock.reason if clock.over() else f"the script as it is {failed}"


def _breaks(measured: Measured, baseline: Baseline) -> Dropped | None:
    """Why a stack cannot be kept, whatever it gives; None if it can."""
    candidate = measured.candidate
    others = ", ".join(candidate.fixes[:-1])
    if measured.failure:
        return Dropped(Outcome.FAILED, f"together with {others}: {measured.failure}")
    judged = judge(candidate.equivalence, baseline.losses, measured.losses, baseline.band)
    if judged.ok is not False:
        return None
    return Dropped(Outcome.LOSSES_DIFFER, f"together with {others}: {judged.text}")


def _idle(
    measured: Measured,
    top: Measured,
    fixes: tuple[str, ...],
    baseline: Baseline,
    sure: bool = False,
) -> Dropped | None:
    """Why a fix is left out that adds nothing to the others, for `sure`; None if it does."""
    more, least = on_top(measured, top), 1 + floor(baseline.control)
    if more.speedup > least and more.low > (1 if sure else 1 / least):
        return None
    gain = f"{more.speedup:.2f}× ({more.low:.2f} to {more.high:.2f})"
    return Dropped(Outcome.REDUNDANT, f"on top of {', '.join(fixes)} it gives {gain}")


def on_top(stacked: Measured, before: Measured) -> Ratio:
    """The gain of one stack over another; both have a ratio.

    From their pairs round by round, as what they share of the noise cancels so. Without
    pairs from the two intervals, as if they were independent: the distances of the
    limits from the estimates add in quadrature (Zou and Donner, "Construction of
    confidence limits about effect measures", Statistics in Medicine 27, 2008).
    """
    pairs = [
        Pair(math.exp(one.log_ratio), *(math.exp(other.log_ratio),) * 2, one.steps)
        for one, other in zip(stacked.pairs, before.pairs, strict=False)
    ]
    if len(pairs) >= FEWEST:
        return ratio(pairs)
    assert stacked.ratio is not None
    assert before.ratio is not None
    other = before.ratio
    inverse = replace(other, speedup=1 / other.speedup, low=1 / other.high, high=1 / other.low)
    return _product(stacked.ratio, inverse)


def _product(one: Ratio, other: Ratio) -> Ratio:
    """One gain times another, as if they were independent: see `on_top`."""
    gain = one.speedup * other.speedup
    below = math.hypot(math.log(one.speedup / one.low), math.log(other.speedup / other.low))
    above = math.hypot(math.log(one.high / one.speedup), math.log(other.high / other.speedup))
    pairs, steps = min(one.pairs, other.pairs), min(one.steps, other.steps)
    return Ratio(gain, gain * math.exp(-below), gain * math.exp(above), pairs, steps)


def both(first: Stacked, later: Stacked) -> Stacked:
    """What was kept first, and later on top of it."""
    dropped = {**first.dropped, **later.dropped}
    if first.ratio is None or later.ratio is None:
        kept = later if first.ratio is None else first
        return replace(kept, dropped=dropped)
    return Stacked(
        (*first.fixes, *later.fixes),
        _product(first.ratio, later.ratio),
        dropped,
        later.start,
        first.holds or later.holds,
        {**first.gains, **later.gains},
        together=False,
    )


def _speedup(measured: Measured) -> float:
    return measured.ratio.speedup if measured.ratio is not None else 0.0

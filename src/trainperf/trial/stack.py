"""Winners put together, best first: what is kept is what pays on top of the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from trainperf.model import Ratio
from trainperf.trial.budget import Clock
from trainperf.trial.candidates import Candidate
from trainperf.trial.outcome import Baseline, Measured, floor
from trainperf.trial.parity import judge
from trainperf.trial.ratio import Pair, ratio

Compare = Callable[[Sequence[Candidate], Clock], list[Measured]]
Join = Callable[[Sequence[str]], Candidate | str]
"""Makes the candidate of several fixes together, or says why they do not go together."""


@dataclass(frozen=True)
class Stacked:
    """The fixes that go into the patch, what they give together, and who was dropped.

    `ratio` is None where the stack could not be measured: then `fixes` holds the best
    single one alone, or nothing.
    """

    fixes: tuple[str, ...]
    ratio: Ratio | None
    dropped: Mapping[str, str] = field(default_factory=dict)


def stack(
    winners: Sequence[Measured], baseline: Baseline, join: Join, compare: Compare, clock: Clock
) -> Stacked:
    """Measure the winners together and keep those that pay on top of the better ones.

    `winners` are fixes that were kept alone. All stacks of the best one, two, three …
    are alive together, so that each is compared with the one before it. Where one was
    dropped from the middle, what remains is measured again; what cannot be any more, is
    cut to the largest stack that was.
    """
    order = sorted(winners, key=lambda one: -_speedup(one))
    if not order:
        return Stacked((), None)
    alone = order[0]
    if len(order) == 1:
        return Stacked((alone.name,), alone.ratio)
    dropped: dict[str, str] = {}
    prefixes = _prefixes(order, join, dropped)
    found = {one.name: one for one in compare(prefixes, clock)} if prefixes else {}
    kept, last = [alone.name], alone
    for candidate in prefixes:
        name = candidate.fixes[-1]
        measured = found[candidate.name]
        reason = _does_not_pay(measured, last, candidate, baseline)
        if reason:
            dropped[name] = reason
        else:
            kept.append(name)
        if not reason or measured.ratio is not None:
            last = measured if measured.ratio is not None else last
    return _final(tuple(kept), alone, prefixes, found, dropped, join, compare, clock)


def _prefixes(order: Sequence[Measured], join: Join, dropped: dict[str, str]) -> list[Candidate]:
    """The stacks of two, three … of the winners, those left out that do not go together."""
    names, made = [order[0].name], []
    for one in order[1:]:
        candidate = join((*names, one.name))
        if isinstance(candidate, str):
            dropped[one.name] = f"does not go together with {', '.join(names)}: {candidate}"
            continue
        names.append(one.name)
        made.append(candidate)
    return made


def _does_not_pay(
    measured: Measured, before: Measured, candidate: Candidate, baseline: Baseline
) -> str:
    """Why the last fix of a stack is not kept on top of the others, or nothing."""
    others = ", ".join(candidate.fixes[:-1])
    if measured.ratio is None:
        return measured.failure or f"not measured on top of {others}: out of budget"
    parity = judge(candidate.equivalence, baseline.losses, measured.losses, baseline.band)
    if parity.ok is False:
        return f"together with {others}: {parity.text}"
    more = on_top(measured, before)
    if more is None or more.low > 1 + floor(baseline.control):
        return "" if more is not None else f"not measured on top of {others}: out of budget"
    return f"on top of {others} it gives {more.speedup:.2f}× ({more.low:.2f} to {more.high:.2f})"


def on_top(stacked: Measured, before: Measured) -> Ratio | None:
    """What one stack gives over another, from their pairs round by round."""
    pairs = [
        Pair(
            math.exp(one.log_ratio), math.exp(other.log_ratio), math.exp(other.log_ratio), one.steps
        )
        for one, other in zip(stacked.pairs, before.pairs, strict=False)
    ]
    if len(pairs) >= 3:
        return ratio(pairs)
    return None


def _final(
    kept: tuple[str, ...],
    alone: Measured,
    prefixes: Sequence[Candidate],
    found: Mapping[str, Measured],
    dropped: dict[str, str],
    join: Join,
    compare: Compare,
    clock: Clock,
) -> Stacked:
    if len(kept) == 1:
        return Stacked(kept, alone.ratio, dropped)
    measured = found.get("+".join(kept))
    if measured is None:  # one was dropped from the middle
        candidate = join(kept)
        again = compare([candidate], clock) if isinstance(candidate, Candidate) else []
        measured = again[0] if again and again[0].ratio is not None else None
    if measured is not None:
        return Stacked(kept, measured.ratio, dropped)
    for candidate in reversed(prefixes):
        best = found[candidate.name]
        if best.ratio is not None and set(candidate.fixes) <= set(kept):
            for name in set(kept) - set(candidate.fixes):
                dropped[name] = "not measured together with the others: out of budget"
            return Stacked(candidate.fixes, best.ratio, dropped)
    for name in kept[1:]:
        dropped[name] = "not measured together with the others: out of budget"
    return Stacked(kept[:1], alone.ratio, dropped)


def _speedup(measured: Measured) -> float:
    return measured.ratio.speedup if measured.ratio is not None else 0.0

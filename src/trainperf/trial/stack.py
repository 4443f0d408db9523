"""Winners put together, best first: what is kept is what pays on top of the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from trainperf.model import Outcome, Ratio
from trainperf.trial.budget import Clock
from trainperf.trial.candidates import Candidate
from trainperf.trial.legs.leg import LegFailed
from trainperf.trial.outcome import Baseline, Measured, Start, floor, whole_s
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

    `ratio` is None where there are no fixes; `start` is how long they took to start.
    """

    fixes: tuple[str, ...]
    ratio: Ratio | None
    dropped: Mapping[str, Dropped] = field(default_factory=dict)
    start: Start | None = None

    @property
    def reasons(self) -> dict[str, str]:
        """Why each dropped fix was."""
        return {name: one.reason for name, one in self.dropped.items()}


def stack(
    winners: Sequence[Measured],
    baseline: Baseline,
    join: Join,
    compare: Compare,
    clock: Clock,
    steps: int | None = None,
    partners: Sequence[str] = (),
) -> Stacked:
    """Measure the winners together and keep those that pay on top of the better ones.

    `winners` are fixes that were kept alone, `partners` others that may pay on top of them. The
    best is the one with which `steps` steps, the whole training, take least, where their number is
    known: what a fix costs once counts.
    All stacks of the best two, three, … are alive together, so that each is compared with the
    one before it. A fix that breaks its stack (it fails, or trains differently) is left out,
    and the stacks of those after it are measured again without it. Fixes that add nothing are
    taken out at the end, which is measured again as well, unless they were the last. What
    there is no time for is cut to the largest stack that was measured.
    """
    order = sorted(winners, key=lambda one: (whole_s(one, baseline, steps), -_speedup(one)))
    if not order:
        return Stacked((), None)
    pile = _Pile(order[0], baseline, join, compare, clock)
    rest = [*(one.name for one in order[1:]), *partners]
    while rest:
        rest = pile.put_on(rest)
    return pile.without_idle()


class _Pile:
    """The stack while it grows.

    `fixes` are in it, the best first, and were measured so: `top` is what they gave.
    `kept` are those of them that pay.
    """

    def __init__(
        self, alone: Measured, baseline: Baseline, join: Join, compare: Compare, clock: Clock
    ) -> None:
        self.fixes: tuple[str, ...] = (alone.name,)
        self.kept: tuple[str, ...] = self.fixes
        self.top = alone
        self.dropped: dict[str, Dropped] = {}
        self._baseline = baseline
        self._join = join
        self._compare = compare
        self._clock = clock
        # The largest measured stack that ends with a fix that pays.
        self._last: tuple[tuple[str, ...], Measured] = (self.fixes, alone)

    def put_on(self, names: Sequence[str]) -> list[str]:
        """Put the fixes on the stack one by one; return those to be put on once more.

        These are the ones that were only measured on top of a fix that is now left out.
        """
        stacks = self._stacks(names)
        found, unmeasured = self._measure(stacks)
        for at, candidate in enumerate(stacks):
            name, measured = candidate.fixes[-1], found.get(candidate.name)
            if measured is None or measured.late:
                reason = f"not measured on top of {self}: {unmeasured}"
                for later in stacks[at:]:
                    self.dropped[later.fixes[-1]] = Dropped(Outcome.NOT_TRIED, reason)
                return []
            broken = self._breaks(measured, candidate)
            if broken:
                self.dropped[name] = broken
                return [later.fixes[-1] for later in stacks[at + 1 :]]
            self._take(name, measured)
        return []

    def without_idle(self) -> Stacked:
        """The kept fixes, measured without those that add nothing on top of the others.

        If it cannot be measured, or breaks, these stay in: the stack that holds them
        was measured, and trains the same.
        """
        fixes, last = self._last
        if fixes != self.kept:
            candidate = self._join(self.kept)
            if isinstance(candidate, Candidate):
                found, _ = self._measure([candidate])
                measured = found.get(candidate.name)
                if measured is not None and self._is_sound(measured, candidate):
                    fixes, last = self.kept, measured
        dropped = {name: why for name, why in self.dropped.items() if name not in fixes}
        return Stacked(fixes, last.ratio, dropped, last.start)

    def _stacks(self, names: Sequence[str]) -> list[Candidate]:
        """This stack and the first, the first two, … of `names`; some may not fit."""
        fixes, made = self.fixes, []
        for name in names:
            candidate = self._join((*fixes, name))
            if isinstance(candidate, str):
                others = ", ".join(fixes)
                reason = f"does not go together with {others}: {candidate}"
                self.dropped[name] = Dropped(Outcome.NOT_TRIED, reason)
                continue
            fixes = (*fixes, name)
            made.append(candidate)
        return made

    def _measure(self, stacks: Sequence[Candidate]) -> tuple[dict[str, Measured], str]:
        """The measurements by name, and the reason where one is missing."""
        if not stacks or self._clock.over():
            return {}, self._clock.reason
        try:
            return {one.name: one for one in self._compare(stacks, self._clock)}, self._clock.reason
        except LegFailed as failed:
            late = self._clock.over()
            return {}, self._clock.reason if late else f"the script as it is {failed}"

    def _breaks(self, measured: Measured, candidate: Candidate) -> Dropped | None:
        """Why a stack cannot be kept, whatever it gives; None if it can."""
        others = ", ".join(candidate.fixes[:-1])
        if measured.failure:
            return Dropped(Outcome.FAILED, f"together with {others}: {measured.failure}")
        judged = judge(
            candidate.equivalence, self._baseline.losses, measured.losses, self._baseline.band
        )
        if judged.ok is not False:
            return None
        return Dropped(Outcome.LOSSES_DIFFER, f"together with {others}: {judged.text}")

    def _is_sound(self, measured: Measured, candidate: Candidate) -> bool:
        return not measured.late and not self._breaks(measured, candidate)

    def _take(self, name: str, measured: Measured) -> None:
        more = on_top(measured, self.top)
        if more.low > 1 + floor(self._baseline.control):
            self.kept = (*self.kept, name)
            self._last = ((*self.fixes, name), measured)
        else:
            gain = f"{more.speedup:.2f}× ({more.low:.2f} to {more.high:.2f})"
            reason = f"on top of {self} it gives {gain}"
            self.dropped[name] = Dropped(Outcome.REDUNDANT, reason)
        self.fixes = (*self.fixes, name)
        self.top = measured

    def __str__(self) -> str:
        return ", ".join(self.fixes)


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
    one, other = stacked.ratio, before.ratio
    assert one is not None
    assert other is not None
    gain = one.speedup / other.speedup
    below = math.hypot(math.log(one.speedup / one.low), math.log(other.high / other.speedup))
    above = math.hypot(math.log(one.high / one.speedup), math.log(other.speedup / other.low))
    return Ratio(
        gain,
        gain * math.exp(-below),
        gain * math.exp(above),
        min(one.pairs, other.pairs),
        min(one.steps, other.steps),
    )


def _speedup(measured: Measured) -> float:
    return measured.ratio.speedup if measured.ratio is not None else 0.0

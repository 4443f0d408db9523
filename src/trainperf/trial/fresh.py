"""Fresh processes one after another: unchanged, changed, changed, unchanged."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trainperf.model import Ratio, Run
from trainperf.recording.run import Epoch
from trainperf.run.stopping import LEG, Guard
from trainperf.trial.budget import NO_SLICE, SLICES, Bench, Clock
from trainperf.trial.candidates import Candidate
from trainperf.trial.contest import take
from trainperf.trial.legs.faults import LegFailed, OutOfTime
from trainperf.trial.legs.leg import Leg, Slice
from trainperf.trial.legs.starting import let_start
from trainperf.trial.outcome import Baseline, Measured, Start, baseline, control_of, start_of
from trainperf.trial.parity import Losses, control, read_losses
from trainperf.trial.ratio import FEWEST, Pair, ratio


@dataclass(frozen=True)
class Process:
    """One process: its slices by what they hold, its losses, and its start to the first update."""

    slices: Mapping[Epoch | None, Sequence[Slice]]
    losses: Losses | None
    start: Start | None
    failure: LegFailed | None = None


@dataclass(frozen=True)
class Rest:
    """What comes beside and after the candidates, by what was measured until now.

    `keep_s` seconds of the time are for what comes after, `needless` says by name why a candidate
    could change nothing any more.
    """

    keep_s: float = 0.0
    needless: Mapping[str, str] = field(default_factory=dict)


Look = Callable[[Sequence[Measured], Sequence[Candidate]], Rest]
"""Says what the rest is, of what was measured and of the candidates that are not decided."""


def nothing_more(measured: Sequence[Measured], candidates: Sequence[Candidate]) -> Rest:
    """Say that all there is are the candidates."""
    return Rest()


class FreshProcesses:
    """Compares candidates with the unchanged script, one process alive at a time.

    Slower than legs that live together, and what drifts between processes stays in the
    figures: an interval is widened to hold both halves, A B and B A.
    """

    def __init__(self, bench: Bench, guard: Guard) -> None:
        self._bench = bench
        self._guard = guard
        self._unchanged: list[Process] = []
        self._kinds: dict[Epoch | None, None] = {}
        self.legs = 0
        self.compared_s = 0.0

    def compare(
        self,
        candidates: Sequence[Candidate],
        clock: Clock,
        look: Look = nothing_more,
    ) -> list[Measured]:
        """Run each candidate twice, between two processes of the unchanged script.

        Ends when the time is over, less what is to be kept of it.
        Raises `LegFailed` if the unchanged script cannot be run so.
        """
        found: list[Measured] = []
        self._kinds |= dict.fromkeys(candidate.holds for candidate in candidates)
        for number, candidate in enumerate(candidates):
            holds = candidate.holds
            rest = look(found, [candidate])
            if needless := rest.needless.get(candidate.name, ""):
                found.append(Measured(candidate, needless=needless))
                continue
            if clock.keeping(rest.keep_s).over() and self._unchanged:
                found.append(Measured(candidate, failure=OutOfTime()))
                continue
            self._bench.say(f"{candidate.name}, in fresh processes", number / len(candidates))
            if not self._unchanged or holds not in self._unchanged[-1].slices:
                self._again(clock)
            before, after, compared = self._unchanged[-1], None, None
            changed = [self._changed(candidate, clock)]
            if changed[0].slices[holds] and not changed[0].failure:
                changed.append(self._changed(candidate, clock))
                after = self._again(clock)
            failure = next((process.failure for process in changed if process.failure), None)
            if after is not None and not failure:
                compared = _compare(before, changed, after, holds)
            first = changed[0]
            found.append(Measured(candidate, compared, first.losses, failure, first.start))
        return found

    def _again(self, clock: Clock) -> Process | None:
        """Run the unchanged script once more; None if it made no slice."""
        process = self._process("", self._bench.run, clock, self._kinds)
        if any(process.slices.values()):
            self._unchanged.append(process)
            return process
        if not self._unchanged:
            raise process.failure or OutOfTime(NO_SLICE)
        return None

    def _changed(self, candidate: Candidate, clock: Clock) -> Process:
        work, slow = candidate.work, candidate.compiles
        return self._process(candidate.name, candidate.run, clock, (candidate.holds,), work, slow)

    def _process(
        self,
        name: str,
        run: Run,
        clock: Clock,
        kinds: Iterable[Epoch | None],
        work: float = 1.0,
        slow: bool = False,
    ) -> Process:
        self.legs += 1
        costs, folder = self._bench.costs, self._bench.folder / "alone" / f"{LEG}{self.legs}"
        leg = Leg(name, run, folder, work, slow)
        slices: dict[Epoch | None, list[Slice]] = {kind: [] for kind in kinds}
        epochs = run.leg.warm_up_epochs if run.leg is not None else 0
        limit = 30 + 4 * costs.starting(1, epochs)
        try:
            let_start([leg], self._guard, limit, clock.over, alone=True)
            if leg.starting:
                leg.give_up(OutOfTime())
            for kind, made in slices.items():
                step_s = costs.holding(kind).step_s * leg.work_per_step
                while not leg.failure and len(made) < SLICES and not clock.over():
                    piece, step_s = take(leg, step_s, leg.slowest_s, clock.over, kind)
                    if piece is not None:
                        made.append(piece)
        except LegFailed as failed:
            leg.failure = failed
        finally:
            leg.end()
            self.compared_s += sum(piece.seconds for made in slices.values() for piece in made)
        return Process(slices, read_losses(leg.trained), start_of(leg), leg.failure)

    def baseline(self, holds: Epoch | None = None) -> Baseline:
        """The unchanged script as measured, in such slices; raises `LegFailed` without any."""
        there = [
            kind for process in self._unchanged for kind, made in process.slices.items() if made
        ]
        if not there:
            raise OutOfTime(NO_SLICE)
        kind = holds if holds in there else there[0]
        made = [process for process in self._unchanged if process.slices.get(kind)]
        slices = [piece for process in made for piece in process.slices[kind]]
        first, last, twins = made[0], made[-1], len(made) > 1
        band = control(first.losses, last.losses if twins else None)
        against = _compare(first, [last], first, kind) if twins else None
        starts = [process.start for process in self._unchanged]
        return baseline(slices, first.losses, band, control_of(against, band), starts)


def _compare(
    before: Process, changed: list[Process], after: Process, holds: Epoch | None
) -> Ratio | None:
    """The speed-up, its interval wide enough for both halves of A B B A."""
    pairs = [
        Pair(piece.rate, one.rate, other.rate, piece.updates)
        for process in changed
        for piece, one, other in zip(
            process.slices[holds], before.slices.get(holds, ()), after.slices[holds], strict=False
        )
    ]
    if len(pairs) < FEWEST or not all(process.slices[holds] for process in changed):
        return None
    whole = ratio(pairs)
    rates = [
        statistics.median(piece.rate for piece in process.slices[holds])
        for process in (*changed, before, after)
    ]
    halves = [rate / beside for rate, beside in zip(rates[:-2], rates[-2:], strict=False)]
    return replace(whole, low=min(whole.low, *halves), high=max(whole.high, *halves))

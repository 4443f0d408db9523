"""Fresh processes one after another: unchanged, changed, changed, unchanged."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from trainperf.model import Equivalence, Ratio
from trainperf.recording.run import Epoch
from trainperf.run.stopping import LEG, Guard
from trainperf.trial.budget import NO_SLICE, SLICES, Bench, Clock
from trainperf.trial.candidates import Candidate
from trainperf.trial.contest import take
from trainperf.trial.legs.faults import LegFailed, OutOfTime
from trainperf.trial.legs.leg import Leg, Slice
from trainperf.trial.legs.starting import let_start
from trainperf.trial.outcome import Baseline, Measured, Start, baseline, start_of
from trainperf.trial.parity import Losses, control, read_losses
from trainperf.trial.ratio import FEWEST, Pair, ratio


@dataclass(frozen=True)
class Process:
    """One process: slices that hold such epochs, or steps, its losses, and its start."""

    holds: Epoch | None
    slices: Sequence[Slice]
    losses: Losses | None
    start: Start | None
    failure: LegFailed | None = None


Look = Callable[[Sequence[Measured], Sequence[Candidate]], tuple[float, Mapping[str, str]]]
"""Of what was measured and the candidates that are not decided: so many seconds are to be kept for
what comes after, and why some could change nothing any more, by name."""


def nothing_else(_: Sequence[Measured], __: Sequence[Candidate]) -> tuple[float, Mapping[str, str]]:
    """Say that all there is are the candidates."""
    return 0.0, {}


class FreshProcesses:
    """Compares candidates with the unchanged script, one process alive at a time.

    Slower than legs that live together, and what drifts between processes stays in the
    figures: an interval is widened to hold both halves, A B and B A.
    """

    def __init__(self, bench: Bench, guard: Guard) -> None:
        self._bench = bench
        self._guard = guard
        self._script = Candidate((), bench.run, Equivalence.EXACT, None, 0)
        self._unchanged: list[Process] = []
        self.legs = 0
        self.compared_s = 0.0

    def compare(
        self,
        candidates: Sequence[Candidate],
        clock: Clock,
        look: Look = nothing_else,
    ) -> list[Measured]:
        """Run each candidate twice, between two processes of the unchanged script.

        Ends when the time is over, less what is to be kept of it.
        Raises `LegFailed` if the unchanged script cannot be run so.
        """
        found: list[Measured] = []
        for number, candidate in enumerate(candidates):
            keep_s, needless = look(found, [candidate])
            if candidate.name in needless:
                found.append(Measured(candidate, needless=needless[candidate.name]))
                continue
            if clock.keeping(keep_s).over() and self._unchanged:
                found.append(Measured(candidate, failure=OutOfTime()))
                continue
            self._bench.say(f"{candidate.name}, in fresh processes", number / len(candidates))
            found.append(self._compared(candidate, clock))
        return found

    def _compared(self, candidate: Candidate, clock: Clock) -> Measured:
        """A candidate between two processes of the unchanged script that make such slices."""
        last = self._unchanged[-1] if self._unchanged else None
        alike = last is not None and last.holds == candidate.holds
        before = last if alike else self._again(candidate.holds, clock)
        if before is None:
            return Measured(candidate, failure=OutOfTime())
        changed, compared = [self.process(candidate, clock)], None
        if changed[0].slices and not changed[0].failure:
            changed.append(self.process(candidate, clock))
            after = self._again(candidate.holds, clock)
            if after is not None and not changed[1].failure:
                compared = _compare(before, changed, after)
        failure = next((process.failure for process in changed if process.failure), None)
        first = changed[0]
        return Measured(candidate, compared, first.losses, failure, first.start)

    def _again(self, holds: Epoch | None, clock: Clock) -> Process | None:
        """Run the unchanged script once more; None if it made no slice."""
        process = self.process(replace(self._script, holds=holds), clock)
        if process.slices:
            self._unchanged.append(process)
            return process
        if not self._unchanged:
            raise process.failure or OutOfTime(NO_SLICE)
        return None

    def process(self, candidate: Candidate, clock: Clock, most: int = SLICES) -> Process:
        """A process of a candidate, or of the unchanged script, and its slices, so many at most."""
        self.legs += 1
        costs, slices, holds = self._bench.costs, list[Slice](), candidate.holds
        folder = self._bench.folder / "alone" / f"{LEG}{self.legs}"
        leg = Leg(candidate.name, candidate.run, folder, candidate.work, candidate.compiles)
        epochs = leg.run.leg.warm_up_epochs if leg.run.leg is not None else 0
        limit = 30 + 4 * costs.starting(1, epochs)
        try:
            let_start([leg], self._guard, limit, clock.over, alone=True)
            if leg.starting:
                leg.give_up(OutOfTime())
            step_s = costs.holding(holds).step_s * leg.work_per_step
            while not leg.failure and len(slices) < most and not clock.over():
                piece, step_s = take(leg, step_s, leg.slowest_s, clock.over, holds)
                slices += [] if piece is None else [piece]
        except LegFailed as failed:
            leg.failure = failed
        finally:
            leg.end()
            self.compared_s += sum(piece.seconds for piece in slices)
        return Process(holds, slices, read_losses(leg.trained), start_of(leg), leg.failure)

    def baseline(self, holds: Epoch | None = None) -> Baseline:
        """The unchanged script as measured, in such slices; raises `LegFailed` without any.

        Of another kind where it made none of this.
        """
        if not self._unchanged:
            raise OutOfTime(NO_SLICE)
        kinds = [process.holds for process in self._unchanged]
        kind = holds if holds in kinds else kinds[0]
        made = [process for process in self._unchanged if process.holds == kind]
        slices = [piece for process in made for piece in process.slices]
        first, last, twins = made[0], made[-1], len(made) > 1
        band = control(first.losses, last.losses if twins else None)
        against = _compare(first, [last], first) if twins else None
        starts = [process.start for process in self._unchanged]
        return baseline(slices, first.losses, band, against, starts)


def _compare(before: Process, changed: list[Process], after: Process) -> Ratio | None:
    """The speed-up, its interval wide enough for both halves of A B B A."""
    pairs = [
        Pair(piece.rate, first.rate, last.rate, piece.updates)
        for process in changed
        for piece, first, last in zip(process.slices, before.slices, after.slices, strict=False)
    ]
    if len(pairs) < FEWEST or not all(process.slices for process in changed):
        return None
    whole = ratio(pairs)
    rates = [
        statistics.median(piece.rate for piece in process.slices)
        for process in (*changed, before, after)
    ]
    halves = [rate / beside for rate, beside in zip(rates[:-2], rates[-2:], strict=False)]
    return replace(whole, low=min(whole.low, *halves), high=max(whole.high, *halves))

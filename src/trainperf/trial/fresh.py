"""Fresh processes one after another: unchanged, changed, changed, unchanged."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainperf.model import Ratio, Run
from trainperf.recording.run import Epoch
from trainperf.run.stopping import LEG, Guard
from trainperf.trial.budget import LATE, NO_SLICE, SLICES, Clock, Costs
from trainperf.trial.candidates import Candidate
from trainperf.trial.contest import take
from trainperf.trial.legs.leg import Leg, LegFailed, Slice, give_device, look_at
from trainperf.trial.outcome import Baseline, Measured, Start, baseline, control_of, start_of
from trainperf.trial.parity import Losses, control, read_losses
from trainperf.trial.ratio import FEWEST, Pair, ratio

LOOK_EVERY_S = 0.01


@dataclass(frozen=True)
class Process:
    """One process: its slices by what they hold, its losses, and its start to the first update."""

    slices: Mapping[Epoch | None, Sequence[Slice]]
    losses: Losses | None
    start: Start | None
    failure: str = ""


class FreshProcesses:
    """Compares candidates with the unchanged script, one process alive at a time.

    Slower than legs that live together, and what drifts between processes stays in the
    figures: an interval is widened to hold both halves, A B and B A.
    """

    def __init__(
        self,
        run: Run,
        folder: Path,
        costs: Costs,
        guard: Guard,
        say: Callable[[str, float | None], None],
    ) -> None:
        self._run = run
        self._folder = folder
        self._costs = costs
        self._guard = guard
        self._say = say
        self._unchanged: list[Process] = []
        self._kinds: dict[Epoch | None, None] = {}
        self.legs = 0
        self.compared_s = 0.0

    def compare(
        self,
        candidates: Sequence[Candidate],
        clock: Clock,
        keep: Callable[[Sequence[Measured]], float],
    ) -> list[Measured]:
        """Run each candidate twice, between two processes of the unchanged script.

        Ends when the time is over, less what `keep` wants kept of it.
        Raises `LegFailed` if the unchanged script cannot be run so.
        """
        found: list[Measured] = []
        self._kinds |= dict.fromkeys(candidate.holds for candidate in candidates)
        for number, candidate in enumerate(candidates):
            if clock.keeping(keep(found)).over() and self._unchanged:
                found.append(Measured(candidate.name, None, None, LATE, holds=candidate.holds))
                continue
            self._say(f"{candidate.name}, in fresh processes", number / len(candidates))
            if not self._unchanged:
                self._again(clock)
            before = self._unchanged[-1]
            changed = [self._changed(candidate, clock)]
            after = None
            if changed[0].slices[candidate.holds] and not changed[0].failure:
                changed.append(self._changed(candidate, clock))
                after = self._again(clock)
            found.append(_measured(candidate, before, changed, after))
        return found

    def _again(self, clock: Clock) -> Process | None:
        """Run the unchanged script once more; None if it made no slice."""
        process = self._process("", self._run, clock, self._kinds)
        if any(process.slices.values()):
            self._unchanged.append(process)
            return process
        if not self._unchanged:
            raise LegFailed(process.failure or NO_SLICE)
        return None

    def _changed(self, candidate: Candidate, clock: Clock) -> Process:
        one = candidate
        return self._process(one.name, one.run, clock, (one.holds,), one.work, one.compiles)

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
        leg = Leg(name, run, self._folder / f"{LEG}{self.legs}", work, slow)
        slices: dict[Epoch | None, list[Slice]] = {kind: [] for kind in kinds}
        epochs = run.leg.warm_up_epochs if run.leg is not None else 0
        limit = 30 + 4 * self._costs.starting(1, epochs)
        try:
            leg.start(self._guard)
            while leg.starting and not clock.over():
                give_device([leg])
                look_at(leg, limit)
                time.sleep(LOOK_EVERY_S)
            if leg.starting:
                leg.give_up(LATE)
            for kind, made in slices.items():
                step_s = self._costs.holding(kind).step_s * leg.work_per_step
                while not leg.failure and len(made) < SLICES and not clock.over():
                    piece, step_s = take(leg, step_s, leg.slowest_s, clock.over, kind)
                    if piece is not None:
                        made.append(piece)
        except LegFailed as failed:
            leg.failure = str(failed)
        finally:
            leg.end()
            self.compared_s += sum(piece.seconds for made in slices.values() for piece in made)
        return Process(slices, read_losses(leg.trained), start_of(leg), leg.failure)

    def baseline(self, holds: Epoch | None = None) -> Baseline:
        """The unchanged script as measured, in such slices; raises `LegFailed` without any."""
        kind = holds if holds in self._kinds else next(iter(self._kinds), None)
        slices = [piece for process in self._unchanged for piece in process.slices.get(kind, ())]
        if not slices:
            raise LegFailed(NO_SLICE)
        first, last = self._unchanged[0], self._unchanged[-1]
        twins = len(self._unchanged) > 1
        band = control(first.losses, last.losses if twins else None)
        against = _compare(first, [last], first, kind) if twins else None
        starts = [one.start for one in self._unchanged]
        return baseline(slices, first.losses, band, control_of(against, band), starts)


def _measured(
    candidate: Candidate, before: Process, changed: list[Process], after: Process | None
) -> Measured:
    """A candidate as measured; without a ratio where one of the four processes is missing."""
    failure = next((one.failure for one in changed if one.failure), "")
    complete = after is not None and not failure
    return Measured(
        name=candidate.name,
        ratio=(
            _compare(before, changed, after, candidate.holds)
            if complete and after is not None
            else None
        ),
        losses=changed[0].losses,
        failure=failure,
        start=changed[0].start,
        holds=candidate.holds,
    )


def _compare(
    before: Process, changed: list[Process], after: Process, holds: Epoch | None
) -> Ratio | None:
    """The speed-up, its interval wide enough for both halves of A B B A."""
    pairs = [
        Pair(piece.rate, one.rate, other.rate, piece.steps)
        for process in changed
        for piece, one, other in zip(
            process.slices[holds], before.slices[holds], after.slices[holds], strict=False
        )
    ]
    if len(pairs) < FEWEST or not all(process.slices[holds] for process in changed):
        return None
    whole = ratio(pairs)
    halves = [
        _rate(process, holds) / _rate(beside, holds)
        for process, beside in zip(changed, (before, after), strict=False)
    ]
    return Ratio(
        whole.speedup,
        min(whole.low, *halves),
        max(whole.high, *halves),
        whole.pairs,
        whole.steps,
    )


def _rate(process: Process, holds: Epoch | None) -> float:
    return statistics.median(piece.rate for piece in process.slices[holds])

"""Legs that live together: the unchanged script, its control, and the candidates."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from trainperf.model import Run
from trainperf.stopping import LEG, Guard
from trainperf.trial.budget import LATE, NO_SLICE, Clock, Costs, affordable
from trainperf.trial.candidates import Candidate
from trainperf.trial.leg import Leg, LegFailed, end_all
from trainperf.trial.outcome import Baseline, Measured, baseline, control_of, floor
from trainperf.trial.parity import control, read_losses
from trainperf.trial.slices import Slice
from trainperf.trial.turns import MAX_PAIRS, MIN_PAIRS, Contest, Turns, enough
from trainperf.trial.warming import warm_up

NOT_COMPARED = "could not be compared: the script as it is"
Say = Callable[[str, float | None], None]
"""Tells the user what is going on, and which share of it is done."""


@dataclass(frozen=True)
class Bench:
    """What trials are made with: the unchanged leg's run, a folder, the costs, the room."""

    run: Run
    folder: Path
    costs: Costs
    legs: int
    say: Say


class SideBySide:
    """Compares candidates with the unchanged script, all of them alive together.

    Use as a context manager: no process is left when it closes.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._guard = Guard()
        self._count = 0
        self._base = self._leg("", bench.run)
        self._control = Contest(self._leg("control", bench.run))
        self._slices: list[Slice] = []

    def __enter__(self) -> SideBySide:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        end_all((self._base, self._control.leg))
        self._guard.__exit__(kind, error, trace)

    @property
    def legs(self) -> int:
        """How many legs were started until now."""
        return self._count

    def compare(self, candidates: Sequence[Candidate], clock: Clock) -> list[Measured]:
        """Run the candidates in turn with the unchanged script until each is decided.

        Raises `LegFailed` if the unchanged script cannot be run so.
        """
        wave = max(1, self._bench.legs - 2)
        found: list[Measured] = []
        for first in range(0, len(candidates), wave):
            try:
                found += self._wave(candidates[first : first + wave], clock)
            except LegFailed as failed:
                if not found:
                    raise
                # What earlier waves gave stands, whatever became of the script since.
                why = LATE if clock.over() else f"{NOT_COMPARED} {failed}"
                found += [Measured(one.name, None, None, why) for one in candidates[first:]]
                break
        return found

    def _wave(self, candidates: Sequence[Candidate], clock: Clock) -> list[Measured]:
        contests = [Contest(self._leg(one.name, one.run)) for one in candidates]
        legs = [contest.leg for contest in contests]
        try:
            self._start(legs, clock)
            self._take_turns(contests, clock)
            return [_measured(contest) for contest in contests]
        finally:
            end_all(legs)

    def _start(self, legs: Sequence[Leg], clock: Clock) -> None:
        if self._base.failure:
            raise LegFailed(self._base.failure)
        new = [leg for leg in (self._base, self._control.leg) if leg.ready_s is None]
        new = [*(leg for leg in new if not leg.failure), *legs]
        costs, say = self._bench.costs, self._bench.say
        epochs = max(
            (leg.run.leg.warm_up_epochs for leg in new if leg.run.leg is not None), default=0
        )
        limit = 30 + 4 * costs.starting(len(new), epochs)

        def done(count: int) -> None:
            say(f"warming up: {count} of {len(new)} ready", count / len(new))

        done(0)
        at_once = max(2, int(costs.cores) + 1) if self._bench.run.guarded else 1
        warm_up(new, self._guard, at_once, limit, clock.over, done)
        if self._base.failure:
            raise LegFailed(self._base.failure)
        twin = self._control.leg
        if twin in new and twin.failure and self._can_be_alone(legs, clock):
            # The same script as the one that stands: only beside itself does it fail,
            # and so may each candidate, whatever its change is worth.
            raise LegFailed(twin.failure)
        self._control.failure = self._control.failure or self._control.leg.failure

    def _can_be_alone(self, legs: Sequence[Leg], clock: Clock) -> bool:
        """Whether there is time left to run one candidate after another."""
        costs = replace(self._bench.costs, together=False)
        return not clock.over() and affordable(costs, clock.left, len(legs)) > 0

    def _take_turns(self, contests: Sequence[Contest], clock: Clock) -> None:
        for contest in contests:
            contest.failure = contest.leg.failure
        ready = [one for one in contests if not one.failure]
        entered = [*([] if self._control.failure else [self._control]), *ready]

        def settled(contest: Contest) -> bool:
            if contest is self._control:
                others = all(one.decided or one.failure for one in ready)
                return others and len(contest.pairs) >= MIN_PAIRS
            known = self._control.ratio
            least = floor(control_of(known, control(None, None)))
            return enough(contest, least)

        self._control.decided = len(self._control.pairs) >= MAX_PAIRS
        leg, step_s = self._bench.run.leg, self._bench.costs.step_s
        epoch = leg.epoch if leg is not None else None
        turns = Turns(self._base, entered, step_s, clock.over, settled, epoch)
        try:
            for number in turns.rounds():
                self._bench.say(_taking_turns(ready, number), _share(ready))
        except LegFailed as failed:
            # What was measured until then counts; nothing can be compared any more.
            self._base.failure = str(failed)
            for contest in ready:
                if contest.ratio is None and not contest.failure:
                    contest.failure = f"{NOT_COMPARED} {failed}"
            if not (self._slices or turns.base_slices):
                raise
        self._slices += turns.base_slices

    def baseline(self) -> Baseline:
        """What the unchanged script was measured to be.

        Raises `LegFailed` if it made no slice.
        """
        if not self._slices:
            raise LegFailed(self._base.failure or NO_SLICE)
        losses = read_losses(self._base.trained)
        other = read_losses(self._control.leg.trained)
        band = control(losses, other)
        starts = [first_step_s(leg) for leg in (self._base, self._control.leg)]
        ratio = control_of(self._control.ratio, band)
        return baseline(self._slices, losses, band, ratio, starts)

    def _leg(self, name: str, run: Run) -> Leg:
        self._count += 1
        return Leg(name, run, self._bench.folder / f"{LEG}{self._count}")


def _measured(contest: Contest) -> Measured:
    return Measured(
        name=contest.leg.name,
        ratio=contest.ratio,
        losses=read_losses(contest.leg.trained),
        failure=contest.failure,
        first_step_s=first_step_s(contest.leg),
        pairs=tuple(contest.pairs),
    )


def first_step_s(leg: Leg) -> float | None:
    """Seconds from the start of a leg to its first update of the weights."""
    for event in leg.trained:
        if event["e"] == "first_update":
            return float(event["t"]) - leg.started_s
    return None


def _taking_turns(contests: Sequence[Contest], number: int) -> str:
    left = sum(not one.decided for one in contests)
    return f"taking turns, round {number}: {left} of {len(contests)} still open"


def _share(contests: Sequence[Contest]) -> float:
    if not contests:
        return 1.0
    done = [1.0 if one.decided else min(1.0, len(one.pairs) / MAX_PAIRS) for one in contests]
    return statistics.fmean(done)

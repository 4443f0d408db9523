"""Legs that live together: the unchanged script, its control, and the candidates."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from trainperf.model import Run
from trainperf.run.stopping import LEG, Guard
from trainperf.trial.budget import LATE, NO_SLICE, Clock, Costs, affordable
from trainperf.trial.candidates import Candidate
from trainperf.trial.legs.leg import Leg, LegFailed, end_all
from trainperf.trial.outcome import Baseline, Measured, Start, baseline, control_of, floor
from trainperf.trial.parity import control, read_losses
from trainperf.trial.slices import Slice
from trainperf.trial.turns import (
    MAX_PAIRS,
    MIN_PAIRS,
    Contest,
    Turns,
    beaten,
    can_wait,
    enough,
    had_its_pairs,
)
from trainperf.trial.warming import warm_up

NOT_COMPARED = "could not be compared: the script as it is"
WAVE = 4
"""So many legs start together at least, where the room allows it: turns wait meanwhile."""
START_SHARE = 0.35
"""Starting some legs may take so much of the time that is left, unless it is a single one."""
Say = Callable[[str, float | None], None]
"""Tells the user what is going on, and which share of it is done."""
Keep = Callable[[Sequence[Measured]], float]
"""Seconds to be kept of the time for what comes after, from what was measured until now."""


def nothing(measured: Sequence[Measured]) -> float:
    """Keep no time for anything else."""
    return 0.0


@dataclass(frozen=True)
class Bench:
    """What trials are made with: the unchanged leg's run, a folder, the costs, the room."""

    run: Run
    folder: Path
    costs: Costs
    legs: int
    say: Say


class SideBySide:
    """Compares candidates with the unchanged script, several of them alive together.

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

    def compare(
        self, candidates: Sequence[Candidate], clock: Clock, keep: Keep = nothing
    ) -> list[Measured]:
        """Run the candidates in turn with the unchanged script until each is decided.

        The first ones come first, a few at a time; who is decided makes room for the next.
        What a few dozen pairs leave open waits, and goes on when all others had their turn.
        Goes on until all are decided or the time is over, less what `keep` wants kept.
        Raises `LegFailed` if the unchanged script cannot be run so.
        """
        waiting, entered, open_ = list(candidates), list[Contest](), list[Contest]()
        failure = LATE
        try:
            while waiting or open_:
                early = clock.keeping(keep([_measured(one) for one in entered]))
                room = max(1, self._bench.legs - 2) - len(open_)
                fresh = self._next(waiting[: max(0, room)], early)
                if (early.over() and entered) or not (fresh or open_):
                    break
                del waiting[: len(fresh)]
                new = [self._contest(one) for one in fresh]
                entered += new
                self._start([one.leg for one in new], early)
                for one in new:
                    one.failure = one.leg.failure
                open_ = [one for one in (*open_, *new) if not one.failure]
                rests = None
                if waiting and (fresh or room <= 0):
                    rests = can_wait if fresh else had_its_pairs
                open_ = self._take_turns(open_, entered, early, rests)
                if waiting and room <= 0:  # who stays undecided makes room as well
                    end_all([one.leg for one in open_])
                    open_ = []
        except LegFailed as failed:
            if not any(one.pairs for one in entered):
                raise
            # What was measured until then stands, whatever became of the script since.
            failure = LATE if clock.over() else f"{NOT_COMPARED} {failed}"
            for one in entered:
                if one.ratio is None and not one.failure:
                    one.failure = failure
        finally:
            end_all([one.leg for one in entered])
        missed = [Measured(one.name, None, None, failure) for one in waiting]
        return [*(_measured(one) for one in entered), *missed]

    def _contest(self, candidate: Candidate) -> Contest:
        race = "+".join(candidate.fixes) if candidate.variant else ""
        return Contest(self._leg(candidate.name, candidate.run, candidate.work), race=race)

    def _next(self, waiting: Sequence[Candidate], clock: Clock) -> list[Candidate]:
        """Those that start now: a few, as many as there is time for; a slow one by itself."""
        fresh = list(waiting[: max(WAVE, self._at_once)])
        slow = next((n for n, one in enumerate(fresh) if one.starts_slowly), len(fresh))
        fresh = fresh[: max(1, slow)]
        first = 0 if self._base.ready_s is not None else 2
        while len(fresh) > 1 and self._starting(first + len(fresh), 0) > START_SHARE * clock.left:
            fresh.pop()
        while fresh:
            epochs = max(one.warm_up_epochs for one in fresh)
            needs = self._starting(first + len(fresh), epochs)
            if needs + self._bench.costs.comparing(1, 2) <= clock.left or first:
                return fresh
            fresh.pop()
        return fresh

    @property
    def _at_once(self) -> int:
        """How many legs start beside each other; one where they share real folders."""
        return self._bench.costs.at_once if self._bench.run.guarded else 1

    def _starting(self, legs: int, epochs: int) -> float:
        """Seconds until so many more have warmed up, by what the first ones took."""
        costs, ready = self._bench.costs, self._base.ready_s
        if ready is not None:
            costs = replace(costs, start_s=ready, cores=float(self._at_once))
        return costs.starting(legs, epochs)

    def _start(self, legs: Sequence[Leg], clock: Clock) -> None:
        if self._base.failure:
            raise LegFailed(self._base.failure)
        new = [leg for leg in (self._base, self._control.leg) if leg.ready_s is None]
        new = [*(leg for leg in new if not leg.failure), *legs]
        if not new:
            return
        costs, say = self._bench.costs, self._bench.say
        epochs = max(
            (leg.run.leg.warm_up_epochs for leg in new if leg.run.leg is not None), default=0
        )
        limit = 30 + 4 * costs.starting(len(new), epochs)

        def done(count: int) -> None:
            say(f"warming up: {count} of {len(new)} ready", count / len(new))

        done(0)
        warm_up(new, self._guard, self._at_once, limit, clock.over, done)
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

    def _take_turns(
        self,
        open_: Sequence[Contest],
        entered: Sequence[Contest],
        clock: Clock,
        rests: Callable[[Contest, float], bool] | None,
    ) -> list[Contest]:
        """Let the open contests take turns; return those that are still open.

        `rests` says of a contest, by the floor, that it lets others have their turn first.
        """

        def least() -> float:
            return floor(control_of(self._control.ratio, control(None, None)))

        def over(contest: Contest) -> bool:
            return enough(contest, least()) or beaten(contest, entered)

        def settled(contest: Contest) -> bool:
            if contest is self._control:
                others = all(one.decided or one.failure for one in open_)
                return others and len(contest.pairs) >= MIN_PAIRS
            return over(contest) or (rests is not None and rests(contest, least()))

        for contest in open_:
            contest.decided = False
        self._control.decided = len(self._control.pairs) >= MAX_PAIRS
        turns_of = [*([] if self._control.failure else [self._control]), *open_]
        leg, step_s = self._bench.run.leg, self._bench.costs.step_s
        epoch = leg.epoch if leg is not None else None
        turns = Turns(self._base, turns_of, step_s, clock.over, settled, epoch)
        try:
            for number in turns.rounds():
                self._bench.say(_taking_turns(open_, number), _share(open_))
                end_all([one.leg for one in open_ if one.leg.alive and over(one)])
        except LegFailed as failed:
            # What was measured until then counts; nothing can be compared any more.
            self._base.failure = str(failed)
            raise
        finally:
            self._slices += turns.base_slices
        return [one for one in open_ if not one.failure and not over(one)]

    def baseline(self) -> Baseline:
        """What the unchanged script was measured to be.

        Raises `LegFailed` if it made no slice.
        """
        if not self._slices:
            raise LegFailed(self._base.failure or NO_SLICE)
        losses = read_losses(self._base.trained)
        other = read_losses(self._control.leg.trained)
        band = control(losses, other)
        starts = [start_of(leg) for leg in (self._base, self._control.leg)]
        ratio = control_of(self._control.ratio, band)
        return baseline(self._slices, losses, band, ratio, starts)

    def _leg(self, name: str, run: Run, work: float = 1.0) -> Leg:
        self._count += 1
        return Leg(name, run, self._bench.folder / f"{LEG}{self._count}", work)


def _measured(contest: Contest) -> Measured:
    return Measured(
        name=contest.leg.name,
        ratio=contest.ratio,
        losses=read_losses(contest.leg.trained),
        failure=contest.failure,
        start=start_of(contest.leg),
        pairs=tuple(contest.pairs),
    )


def start_of(leg: Leg) -> Start | None:
    """What a leg took from its start to its first update of the weights."""
    for event in leg.trained:
        if event["e"] == "first_update":
            return Start(float(event["t"]) - leg.started_s, event.get("cpu"))
    return None


def _taking_turns(contests: Sequence[Contest], number: int) -> str:
    left = sum(not one.decided for one in contests)
    return f"taking turns, round {number}: {left} of {len(contests)} still open"


def _share(contests: Sequence[Contest]) -> float:
    if not contests:
        return 1.0
    done = [1.0 if one.decided else min(1.0, len(one.pairs) / MAX_PAIRS) for one in contests]
    return statistics.fmean(done)

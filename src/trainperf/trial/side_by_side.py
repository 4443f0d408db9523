"""Legs that live together: the unchanged script, its control, and the candidates."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from types import TracebackType

from trainperf.model import Run
from trainperf.run.stopping import LEG
from trainperf.trial.bench import Bench, Keep, guarded, nothing, start_of
from trainperf.trial.budget import LATE, NO_SLICE, Clock, affordable
from trainperf.trial.candidates import Candidate
from trainperf.trial.crowd import Crowd
from trainperf.trial.legs.leg import Leg, LegFailed, end_all
from trainperf.trial.legs.room import TWO
from trainperf.trial.one_after_another import OneAfterAnother
from trainperf.trial.outcome import Baseline, Measured, baseline, control_of, floor
from trainperf.trial.parity import control, read_losses
from trainperf.trial.slices import Slice
from trainperf.trial.turns import (
    MAX_PAIRS,
    MIN_PAIRS,
    SMALLEST_GAIN,
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
ALONE = "alone"
"""The folder of legs that run one after another, as they do not fit beside each other."""


class SideBySide:
    """Compares candidates with the unchanged script, several of them alive together.

    Where two legs fit, the control meets the unchanged script first, then each candidate does.
    Who runs out of memory beside others is tried beside fewer, then alone.
    Use as a context manager: no process is left when it closes.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._guard = guarded(bench)
        self._count = 0
        self._base = self._leg("", bench.run)
        self._reference = self._base  # the leg whose training the others are compared with
        self._control = Contest(self._leg("control", bench.run))
        self._crowd = Crowd(bench.legs)
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
        failure, by_name = LATE, {one.name: one for one in candidates}
        try:
            while waiting or open_:
                early = clock.keeping(keep([self._measured(one) for one in entered]))
                if self._crowd.legs == TWO:
                    self._compare_with_itself(early, len(waiting))
                room = max(1, self._crowd.legs - 2) - len(open_)
                fresh = self._next(waiting[: max(0, room)], early)
                if (early.over() and entered) or not (fresh or open_):
                    break
                del waiting[: len(fresh)]
                new = [self._contest(one) for one in fresh]
                entered += new
                again = [one.leg for one in open_ if one.leg.ready_s is None]
                self._start([*again, *(one.leg for one in new)], early)
                self._crowd.look(new, self._living(new, open_))
                for one in new:
                    one.failure = one.leg.failure
                open_ = [one for one in (*open_, *new) if not one.leg.failure]
                rests = None
                if waiting and (fresh or room <= 0):
                    rests = can_wait if fresh else had_its_pairs
                open_ = self._take_turns(open_, entered, early, rests)
                waiting[:0] = self._crowd.taken_out(entered, by_name)
                self._check_the_control(early)
                if waiting and room <= 0:  # who stays undecided makes room as well
                    end_all([one.leg for one in open_])
                    open_ = []
        except LegFailed as failed:
            if not any(one.pairs for one in entered):
                raise
            # What was measured until then stands, whatever became of the script since.
            failure = LATE if clock.over() else f"{NOT_COMPARED} {failed}"
            rest = [one for one in entered if one.ratio is None and not one.failure]
            if self._base.short_of_memory:
                self._crowd.to_be_alone([*(by_name[one.leg.name] for one in rest), *waiting])
                entered, waiting = [one for one in entered if one not in rest], []
            for one in rest:
                one.failure = failure
        finally:
            end_all([one.leg for one in (*entered, *open_)])
        found = [self._measured(one) for one in entered]
        found += self._alone(clock.keeping(keep(found)))
        found += [self._missed(one, failure) for one in waiting]
        by_order = {one.name: one for one in found}
        return [by_order[one.name] for one in candidates]

    def _contest(self, candidate: Candidate) -> Contest:
        one = candidate
        race = "+".join(one.fixes) if one.variant else ""
        leg = self._leg(one.name, one.run, one.work, one.compiles)
        return Contest(leg, race=race, difference=one.difference)

    def _compare_with_itself(self, clock: Clock, others: int) -> None:
        """Let the control meet the unchanged script, and make room for `others` after it."""
        self._start([], clock)
        if self._control.leg.alive:
            self._take_turns([], [], clock.keeping(clock.left * others / (others + 1)), None)
            end_all([self._control.leg])
        self._check_the_control(clock)

    def _check_the_control(self, clock: Clock) -> None:
        """Raise `LegFailed` if it found no memory for a single slice beside the same script:
        what else stands there does not either, whatever its change is worth."""
        control = self._control
        if control.leg.short_of_memory and not control.pairs and self._can_be_alone([], clock):
            raise LegFailed(control.failure)

    def _alone(self, clock: Clock) -> list[Measured]:
        """Run those one after another that do not fit beside the unchanged script."""
        chosen, self._crowd.alone = self._crowd.alone, []
        if not chosen or clock.over():
            return [self._missed(one, LATE) for one in chosen]
        end_all((self._base, self._control.leg))
        bench = replace(self._bench, folder=self._bench.folder / ALONE)
        with OneAfterAnother(bench) as engine:
            try:
                found = engine.compare(chosen, clock)
            except LegFailed as failed:
                why = LATE if clock.over() else f"{NOT_COMPARED} {failed}"
                found = [self._missed(one, why) for one in chosen]
        self._count += engine.legs
        return [replace(one, note=self._crowd.note(one.name, one.late)) for one in found]

    def _missed(self, candidate: Candidate, why: str) -> Measured:
        note = self._crowd.note(candidate.name, late=why == LATE)
        return Measured(candidate.name, None, None, why, note=note)

    def _measured(self, contest: Contest) -> Measured:
        return Measured(
            name=contest.leg.name,
            ratio=contest.ratio,
            losses=read_losses(contest.first.trained),
            failure=contest.failure,
            start=start_of(contest.first),
            pairs=tuple(contest.pairs),
            note=self._crowd.note(contest.leg.name),
        )

    def _living(self, *contests: Sequence[Contest]) -> int:
        """How many legs are alive: the script's, its control's, and those of the contests."""
        legs = [self._base, self._control.leg, *(one.leg for some in contests for one in some)]
        return sum(leg.alive for leg in legs)

    def _next(self, waiting: Sequence[Candidate], clock: Clock) -> list[Candidate]:
        """The first ones, which start now: as many as there is time for; a slow one by itself.

        None that changes the experiment takes turns from those that do not.
        """
        fresh = list(waiting[: max(WAVE, self._at_once)])
        slow = next((n for n, one in enumerate(fresh) if one.starts_slowly), len(fresh))
        fresh = list(takewhile(lambda one: one.apart == fresh[0].apart, fresh[: max(1, slow)]))
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
        costs, ready, before = self._bench.costs, self._base.ready_s, self._base.before_device_s
        if ready is None:
            return costs.starting(legs, epochs)
        in_turn = before is not None  # else nobody waits for a device
        costs = replace(costs, start_s=ready, in_turn=in_turn, before_device_s=before or 0.0)
        return replace(costs, cores=float(self._at_once)).starting(legs, epochs)

    def _start(self, legs: Sequence[Leg], clock: Clock) -> None:
        base = self._base
        ended = base.ready_s is not None and not base.alive and not base.failure
        if ended or base.ran_out or base.short_of_memory:  # others had to have its memory
            self._base.end()
            self._base = self._leg("", self._bench.run)
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
        return not clock.over() and affordable(costs, clock.left, max(1, len(legs))) > 0

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
            if contest is self._control and not open_:
                known = least() <= SMALLEST_GAIN or len(contest.pairs) >= MAX_PAIRS
                return known and len(contest.pairs) >= MIN_PAIRS
            if contest is self._control:
                others = all(one.decided or one.failure for one in open_)
                return others and len(contest.pairs) >= MIN_PAIRS
            return over(contest) or (rests is not None and rests(contest, least()))

        for contest in open_:
            contest.decided = False
        self._control.decided = len(self._control.pairs) >= MAX_PAIRS
        turns_of = [*([self._control] if self._control.leg.alive else []), *open_]
        leg, step_s = self._bench.run.leg, self._bench.costs.step_s
        epoch = leg.epoch if leg is not None else None
        turns = Turns(self._base, turns_of, step_s, clock.over, settled, epoch)
        try:
            for number in turns.rounds():
                self._bench.say(_taking_turns(open_, number), _share(open_))
                self._crowd.look(open_, self._living(open_))
                end_all([one.leg for one in open_ if one.leg.alive and over(one)])
        except LegFailed as failed:
            # What was measured until then counts; nothing can be compared any more.
            self._base.failure = str(failed)
            if not self._base.ran_out:
                raise
        finally:
            self._slices += turns.base_slices
        again = [one for one in open_ if one.leg.ran_out and not over(one)]
        # Who was over was ended, though the floor may rise above its gain since.
        open_ = [one for one in open_ if one.leg.alive and not over(one)]
        for one in again:
            one.goes_on_with(self._leg(one.leg.name, one.leg.run, one.leg.work, one.leg.slow))
        return [*open_, *again]

    def baseline(self) -> Baseline:
        """The unchanged script as it was measured.

        Raises `LegFailed` if it made no slice.
        """
        if not self._slices:
            raise LegFailed(self._base.failure or NO_SLICE)
        losses = read_losses(self._reference.trained)
        other = read_losses(self._control.leg.trained)
        band = control(losses, other)
        starts = [start_of(leg) for leg in (self._reference, self._control.leg)]
        ratio = control_of(self._control.ratio, band)
        return baseline(self._slices, losses, band, ratio, starts)

    def _leg(self, name: str, run: Run, work: float = 1.0, slow: bool = False) -> Leg:
        self._count += 1
        return Leg(name, run, self._bench.folder / f"{LEG}{self._count}", work, slow)


def _taking_turns(contests: Sequence[Contest], number: int) -> str:
    if not contests:
        return f"the script against itself, round {number}"
    left = sum(not one.decided for one in contests)
    return f"taking turns, round {number}: {left} of {len(contests)} still open"


def _share(contests: Sequence[Contest]) -> float | None:
    if not contests:
        return None
    done = [1.0 if one.decided else min(1.0, len(one.pairs) / MAX_PAIRS) for one in contests]
    return statistics.fmean(done)

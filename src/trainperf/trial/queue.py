"""One queue of trials: who can change the answer most in a second is let run next.

The legs of a script live beside each other and one of them runs at a time: a slice of steps that
are timed, beside slices of the script as it is, or a slice of starting, of as many legs as the
cores let start together. Whoever starts, warms up or compiles is paused in between, so that
nothing waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from trainperf.model import Ratio, Run
from trainperf.recording.run import Epoch
from trainperf.run.spawn import run_file_of
from trainperf.run.stopping import LEG, Guard
from trainperf.trial import parity
from trainperf.trial.budget import LATE, NO_SLICE, Clock, Costs
from trainperf.trial.candidates import SMALLEST_GAIN, Candidate
from trainperf.trial.contest import (
    FAR,
    MOST_TO_JUDGE,
    Contest,
    beaten,
    enough,
    is_told,
    met_itself,
    pairs_to_come,
)
from trainperf.trial.fresh import FreshProcesses
from trainperf.trial.legs.leg import Leg, LegFailed, Slice, end_all, give_device, look_at
from trainperf.trial.legs.room import memory_is_short
from trainperf.trial.outcome import Baseline, Measured, baseline, control_of, start_of
from trainperf.trial.ratio import Pair, of_two
from trainperf.trial.series import Series

CACHES = f"{LEG}caches"
"""The folder of what legs compile, beside theirs: it goes when they do."""
NOT_COMPARED = "could not be compared: the script as it is"
RAN_OUT = "it ran out of memory beside other legs"
FEWER = f"{RAN_OUT}, and was tried beside fewer"
ALONE = f"{RAN_OUT}, and was tried alone"
START_S = 1.0
"""So long legs start, or compile, before others may have their turn."""
TURN_S = 2.0
"""So long contests take turns before legs that start may go on: caches are cold after that."""
LOOK_EVERY_S = 0.01
MORE_S = 15.0
MORE_TIMES = 3.0
"""A leg may take so much longer to start than the slowest that has, if it does not compile."""
OVERDUE = 2.0
"""From so many times the usual start on a leg is none of those that start next."""
LESS_FOR_ANOTHER = 0.25
"""What changes the experiment counts so much less: it goes into no patch."""
OF_THE_CONTROL = 0.2
"""What the script against itself tells counts as a change that saves so much of the training."""

Say = Callable[[str, float | None], None]
"""Tells the user what is going on, and which share of it is done."""
Keep = Callable[[Sequence[Measured]], float]
"""Seconds to be kept of the time for what comes after, from what was measured until now."""
Rule = Callable[[Contest, float, float], bool]
"""Whether a contest is decided, by the gain that may be noise and the one that is worth making."""


@dataclass(frozen=True)
class Bench:
    """The means of trials: the unchanged leg's run, a folder, the costs."""

    run: Run
    folder: Path
    costs: Costs
    say: Say

    def guard(self) -> Guard:
        """A guard over the legs to come, and over what they compile."""
        guard = Guard()
        guard.watch(run_file_of(self.folder / CACHES))
        return guard


def nothing(measured: Sequence[Measured]) -> float:
    """Keep no time for anything else."""
    return 0.0


class Queue:
    """Compares candidates with the unchanged script in turns, all of them in one queue.

    Who runs out of memory beside others is tried beside fewer, then alone. Where two legs fit the
    control meets the unchanged script first, then each candidate does; where one fits each runs
    by itself. Use as a context manager: no process is left when it closes.
    """

    def __init__(self, bench: Bench, over: Rule = enough, controlled: bool = True) -> None:
        self.bench = bench
        self._over = over
        self._controlled = controlled
        self._guard = bench.guard()
        self._made: list[Leg] = []
        self._slots = bench.costs.slots
        self._base = self._leg("", bench.run)
        self._reference = self._base  # the leg whose training the others are compared with
        self._control = self._leg("control", bench.run)
        self._series: dict[Epoch | None, Series] = {}
        self._before: tuple[Series, Slice] | None = None  # what the script did last
        self._round = self._at_least = 0
        self._notes: dict[str, str] = {}
        self._beside: dict[str, int] = {}
        self._alone: list[Candidate] = []
        self._fresh: FreshProcesses | None = None

    def __enter__(self) -> Queue:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        self._guard.__exit__(kind, error, trace)

    def close(self) -> None:
        """End the script's legs, of which the baseline stays."""
        end_all((self._base, self._control))

    @property
    def beside(self) -> bool:
        """Whether legs live beside each other, and not one after another."""
        return self.bench.costs.slots > 1

    @property
    def legs(self) -> int:
        """How many legs were started until now."""
        started = sum(leg.started_s > 0 for leg in self._made)
        return started + (self._fresh.legs if self._fresh is not None else 0)

    @property
    def compared_s(self) -> float:
        """Seconds of the slices that were compared, those of fresh processes as well."""
        beside = sum(series.compared_s for series in self._series.values())
        return beside + (self._fresh.compared_s if self._fresh is not None else 0.0)

    def compare(
        self,
        candidates: Sequence[Candidate],
        clock: Clock,
        keep: Keep = nothing,
        at_least: int = 0,
    ) -> list[Measured]:
        """Run the candidates in turn with the unchanged script until each is decided.

        The first ones start first; who is decided makes room for the next. Each has `at_least` so
        many pairs. Goes on until all are decided or the time is over, less what `keep` wants kept.
        Raises `LegFailed` if the unchanged script cannot be run so.
        """
        self._at_least = at_least
        if self._slots == 1:
            return self._in_fresh_processes(candidates, clock, keep)
        for candidate in sorted(candidates, key=lambda candidate: candidate.holds is not None):
            self._series_of(candidate.holds)
        waiting, entered, failure = list(candidates), list[Contest](), LATE
        early, known = clock.keeping(keep(())), 0
        try:
            while not (early.over() and (entered or clock.over())):
                decided = [contest for contest in entered if contest.decided]
                if len(decided) != known:
                    known = len(decided)
                    early = clock.keeping(keep([self._measured(contest) for contest in decided]))
                self._enter(waiting, entered, early)
                if not self._advance(entered, waiting, early):
                    break
                waiting[:0] = self._taken_out(entered)
        except LegFailed as failed:
            if not any(contest.pairs for contest in entered):
                raise
            # What was measured until then stands, whatever became of the script since.
            failure = LATE if clock.over() else f"{NOT_COMPARED} {failed}"
            rest = [contest for contest in entered if contest.ratio is None and not contest.failure]
            if self._base.short_of_memory:
                self._to_be_alone([*_candidates(rest), *waiting])
                entered, waiting = [contest for contest in entered if contest not in rest], []
            for contest in rest:
                contest.failure = failure
        finally:
            end_all([contest.leg for contest in entered])
        found = [self._measured(contest) for contest in entered if not contest.again]
        found += self._tried_alone(clock.keeping(keep(found)))
        found += [self._missed(candidate, failure) for candidate in waiting]
        by_name = {measured.name: measured for measured in found}
        return [by_name[candidate.name] for candidate in candidates]

    def baseline(self, holds: Epoch | None = None) -> Baseline:
        """The unchanged script as it was measured in slices that hold epochs, or steps.

        Of another kind where it made none of this. Raises `LegFailed` if it made no slice.
        """
        made = {series.holds: series for series in self._series.values() if series.slices}
        if self._fresh is not None and not made:
            return self._fresh.baseline(holds)
        if not made:
            raise LegFailed(self._base.failure or NO_SLICE)
        series = made.get(holds) or next(iter(made.values()))
        losses = parity.read_losses(self._reference.trained)
        first = series.control.first
        band = parity.control(losses, parity.read_losses(first.trained))
        starts = [start_of(leg) for leg in (self._reference, first)]
        ratio = control_of(series.control.ratio, band)
        return baseline(series.slices, losses, band, ratio, starts)

    def _series_of(self, holds: Epoch | None) -> Series:
        """The series of slices that hold such epochs, or steps.

        Each has a control; the first alone where that takes the room of the candidates.
        """
        if holds not in self._series:
            without = not self._controlled or (self._slots == 2 and bool(self._series))
            control = Contest(self._control, holds=holds, decided=without)
            self._series[holds] = Series(self.bench.costs.holding(holds), control)
        return self._series[holds]

    @property
    def _controls(self) -> list[Contest]:
        return [series.control for series in self._series.values()]

    @property
    def _controls_decided(self) -> bool:
        return all(control.decided for control in self._controls)

    # ------------------------------------------------------------------- who is next

    def _enter(self, waiting: list[Candidate], entered: list[Contest], clock: Clock) -> None:
        """Let the next ones in, as many as there are slots, and time, for.

        None that changes the experiment comes before one that does not.
        """
        if self._slots == 2 and not self._controls_decided:
            return
        held = 1 + (self._slots > 2)
        while waiting:
            open_ = [contest for contest in entered if not contest.decided]
            starting = sum(contest.leg.starting and not self._overdue(contest) for contest in open_)
            if len(open_) + held >= max(self._slots, held + 1) or starting > self._at_once:
                return
            candidate = waiting[0]
            costs = self._series_of(candidate.holds).costs
            needed = self._start_s(candidate) + costs.comparing(1, 3)
            if self._base.ready_s is not None and needed > clock.left:
                return
            contest = Contest(self._leg_of(candidate), waiting.pop(0))
            entered.append(contest)
            if candidate.difference is not None and self._slots > 3:
                contest.twin = Contest(self._leg_of(candidate), candidate, twin=contest, again=True)
                entered.append(contest.twin)

    def _advance(
        self, entered: Sequence[Contest], waiting: Sequence[Candidate], clock: Clock
    ) -> bool:
        """Let those run who can change the answer most; False where there is nobody left."""
        if self._base.failure and not (self._base.ran_out or self._base.short_of_memory):
            raise LegFailed(self._base.failure)
        if self._base.failure or (self._base.ready_s is not None and not self._base.alive):
            self._base.end()  # its loop came to its end, or others had to have its memory
            self._base, self._before = self._leg("", self.bench.run), None
        for contest in entered:
            if contest.pairs and not contest.decided:
                self._decide(contest, entered)  # the control may tell by now
        open_ = [contest for contest in entered if not contest.decided]
        if not (open_ or waiting or self._lacks_control(entered)):
            return False
        judged = [contest for contest in entered if contest.twin is not None]
        first = [*judged, *self._controls] if judged else entered[:1]
        waits = [contest for contest in open_ if self._waits(contest)]
        rates = {
            contest: self._rate(contest, contest in first)
            for contest in open_
            if contest not in waits
        }
        for series in self._series.values():
            own = [contest for contest in entered if contest.holds == series.holds]
            if not series.control.decided and self._control_helps(series, own):
                waiting_for = [contest for contest in waits if contest in own]
                rates[series.control] = self._rate(
                    series.control, series.control in first, waiting_for
                )
        order = sorted(rates, key=lambda contest: -rates[contest])
        legs = [self._base] if self._base.starting else []
        legs += [contest.leg for contest in order if contest.leg.starting]
        turns = [contest for contest in order if not contest.leg.starting]
        legs = self._together(list(dict.fromkeys(legs)))
        if not (legs or turns):
            return False
        if turns:
            series = self._series_of(turns[0].holds)
            turns = [contest for contest in turns if contest.holds == series.holds]
            beside = series.beside_each_other
        started = sum(rates[contest] for contest in order if contest.leg in legs)
        at_turn = sum(rates[contest] for contest in turns[:beside]) if turns else 0.0
        self._tell(entered, waiting)
        if legs and (self._base in legs or not turns or started > at_turn):
            self._start(legs, clock, entered)
        else:
            self._take_turns(turns, entered, clock, series)
        return True

    def _control_helps(self, series: Series, own: Sequence[Contest]) -> bool:
        """Whether more pairs of a control may change what is said of any change in its slices.

        So until it tells, of what gains or is not decided; then where a gain is judged, or lies
        within what may be noise. Where slices hold whole epochs, only what waits for it.
        """
        if self._over is not enough or self._slots == 2:
            return True
        if not series.tells_noise and series.holds is not None and self._made_any:
            gained = [contest for contest in own if _gains(contest) and not _far(contest)]
            return any(contest.decided or self._waits(contest) for contest in gained)
        if not series.tells_noise:
            return (
                any(not contest.decided or _gains(contest) for contest in own) or not self._made_any
            )
        least = 1 + series.least
        return any(
            (contest.twin is not None and not contest.decided)
            or (contest.ratio is not None and 1 + SMALLEST_GAIN < contest.ratio.low <= least)
            for contest in own
        )

    @property
    def _made_any(self) -> bool:
        """Whether the script has made a slice."""
        return any(series.slices for series in self._series.values())

    def _lacks_control(self, entered: Sequence[Contest]) -> bool:
        """Whether the control is needed by what was seen: a gain, or one that fails.

        The script itself may fail beside itself, and find no memory. Where nothing else was
        measured it is what the script is measured with.
        """
        lacking = [series.holds for series in self._series.values() if not series.tells_noise]
        if not lacking:
            return False
        if not self._made_any:
            return True
        failed = bool(self._alone) or any(contest.failure for contest in entered)
        return (failed and self._control.starting) or any(
            _gains(contest) and not _far(contest) for contest in entered if contest.holds in lacking
        )

    def _waits(self, contest: Contest) -> bool:
        """Whether nothing but the control can decide a contest."""
        if contest.candidate is not None and contest.candidate.difference is not None:
            return False
        told = self._series_of(contest.holds).tells_noise
        return not told and self._over(contest, SMALLEST_GAIN, contest.worth)

    def _both(self, contest: Contest) -> Ratio | None:
        """The speed-up of a change until now, in all processes that run it."""
        twin, own = self._series_of(contest.holds).control.ratio, contest.ratio
        if contest.twin is None or own is None:
            return own
        other = contest.twin.ratio
        if other is None or twin is None:
            return None
        pair = (other, own) if contest.again else (own, other)
        return of_two(*pair, twin.speedup)[0]

    def _rate(self, contest: Contest, first: bool, waits: Sequence[Contest] = ()) -> float:
        """What a contest may save of the whole training, for each second that it still takes.

        The control may save what those save that wait for it.
        """
        candidate = contest.candidate
        saves = OF_THE_CONTROL if candidate is None else candidate.saves(contest.hope)
        saves += sum(other.candidate.saves(other.hope) for other in waits if other.candidate)
        if candidate is not None and candidate.apart:
            saves *= LESS_FOR_ANOTHER
        series = self._series_of(contest.holds)
        to_come_s = pairs_to_come(contest, series.least) * series.costs.comparing(1, 1)
        if not contest.leg.starting:
            return max(saves, 1e-6) / to_come_s
        spent = contest.leg.spent_s if contest.leg.alive else 0.0
        usual = self._start_s(candidate)
        left = usual - spent if spent < usual else spent  # as long again, for all that is known
        rate = max(saves, 1e-6) / (max(left, 0.5) + to_come_s)
        # The first of the report is tried first, and what is judged is in all its processes,
        # unless it holds up all others.
        return rate + 1.0 if first and not self._overdue(contest) else rate

    def _overdue(self, contest: Contest) -> bool:
        """Whether a leg takes much longer to start than others: it compiles, or it hangs."""
        usual = self._start_s(contest.candidate)
        return contest.leg.alive and contest.leg.spent_s > OVERDUE * usual

    def _start_s(self, candidate: Candidate | None) -> float:
        """Seconds in which a leg stands at its first slice, by what the script's own took."""
        costs, ready = self.bench.costs, self._base.ready_s
        epochs = candidate.warm_up_epochs if candidate is not None else 0
        return (ready or costs.start_s) + epochs * (costs.epoch_s or 0.0)

    @property
    def _at_once(self) -> int:
        """How many legs start beside each other; one where they share real folders."""
        return self.bench.costs.at_once if self.bench.run.guarded else 1

    @property
    def _spin(self) -> bool:
        """Whether threads spin as they wait for each other."""
        return self.bench.costs.spin

    def _together(self, legs: Sequence[Leg]) -> list[Leg]:
        """The first legs that may start beside each other: one has a device they share.

        Nor does any start beside one that makes steps, where threads spin as they wait.
        """
        chosen: list[Leg] = []
        if self._spin and any(leg.warms for leg in legs):
            return [next(leg for leg in legs if leg.warms)]
        for leg in legs:
            if len(chosen) < self._at_once and not (
                leg.has_device and any(other.has_device for other in chosen)
            ):
                chosen.append(leg)
        return chosen

    # ---------------------------------------------------------------------- starting

    def _start(self, legs: Sequence[Leg], clock: Clock, entered: Sequence[Contest]) -> None:
        """Let legs start, until one of them stands at its first slice or it is others' turn.

        Nobody is paused who chooses kernels by timing them.
        """
        self._before = None
        usual = self._base.ready_s
        limit = 30 + 4 * self.bench.costs.starting(len(legs), 0)
        epochs = [leg.run.leg.warm_up_epochs for leg in legs if leg.run.leg is not None]
        limit += 4 * max(epochs, default=0) * (self.bench.costs.epoch_s or 0.0)
        if usual is not None and not any(epochs):
            limit = min(limit, MORE_S + MORE_TIMES * usual)
        for leg in legs:
            if leg.started_s:
                leg.go_on()
            else:
                leg.start(self._guard)
        until = time.monotonic() + START_S
        starting = list(legs)
        while starting and not clock.over():
            turn = len(starting) < len(legs) or time.monotonic() > until
            turn = turn or (self._spin and len(starting) > 1 and any(leg.warms for leg in starting))
            if turn and all(leg.may_pause for leg in starting):
                break
            give_device(starting)
            for leg in starting:
                look_at(leg, limit)
            if memory_is_short():
                starting[-1].give_up("ended: the machine's memory was running out")
                starting[-1].short_of_memory = True
            time.sleep(LOOK_EVERY_S)
            starting = [leg for leg in starting if leg.starting]
        for leg in starting:
            leg.pause()
        self._after_starting(legs, clock, entered)

    def _after_starting(
        self, legs: Sequence[Leg], clock: Clock, entered: Sequence[Contest]
    ) -> None:
        """Take note of the legs that failed; raise `LegFailed` where nothing can be compared."""
        if clock.over():
            for leg in (self._base, self._control):
                if leg in legs and leg.starting:
                    leg.give_up(LATE)
        if self._base.failure:
            raise LegFailed(self._base.failure)
        failure = self._control.failure
        if failure and self._control in legs:
            beside = [contest for contest in entered if contest.leg.alive]
            if self._control.short_of_memory and beside:
                self._makes_room(beside[-1])
                self._control = self._leg("control", self.bench.run)
                for control in self._controls:
                    control.goes_on_with(self._control)
            elif self._can_be_alone(entered, clock):
                # The same script as the one that stands: only beside itself does it fail,
                # and so may each candidate, whatever its change is worth.
                raise LegFailed(failure)
            else:
                for control in self._controls:
                    control.failure, control.decided = failure, True
        for contest in entered:
            if contest.leg.failure and not contest.failure and not contest.leg.ran_out:
                self._failed(contest, contest.leg.failure)

    def _can_be_alone(self, entered: Sequence[Contest], clock: Clock) -> bool:
        """Whether there is time left to run one candidate after another."""
        return replace(self.bench.costs, slots=1).trying(max(1, len(entered))) <= clock.left

    # ------------------------------------------------------------------------- turns

    def _take_turns(
        self, turns: Sequence[Contest], entered: Sequence[Contest], clock: Clock, series: Series
    ) -> None:
        """Let contests of a series have slices between slices of the script, for some seconds."""
        until = time.monotonic() + TURN_S
        while turns and time.monotonic() < until and not clock.over():
            group, self._round = list(turns[: series.beside_each_other]), self._round + 1
            # Back and forth, so that none is always the first after a change of mood.
            if not self._between(group[:: 1 if self._round % 2 else -1], clock, series):
                return
            for contest in group:
                self._decide(contest, entered)
            turns = [*turns[len(group) :], *group]
            turns = [
                contest
                for contest in turns
                if contest.leg.alive and not (contest.decided or self._waits(contest))
            ]

    def _between(self, group: Sequence[Contest], clock: Clock, series: Series) -> bool:
        """Let each of a group have a slice, with one of the script before and after them."""
        known = self._before
        before = known[1] if known and known[0] is series else self._base_slice(clock, series)
        if before is None:
            return False
        pieces: list[tuple[Contest, Slice]] = []
        for contest in group:
            try:
                piece = series.slice_of(contest.leg, self._base, clock)
            except LegFailed as failed:
                contest.leg.end()  # what hangs must not run beside the others
                self._failed(contest, str(failed))
                self._before = None  # it may have taken long: the others stand next to nothing
                return True
            if piece is None:
                return False
            pieces.append((contest, piece))
        after = self._base_slice(clock, series)
        self._before = None if after is None else (series, after)
        if after is None:
            return False
        for contest, piece in pieces:
            contest.pairs.append(Pair(piece.rate, before.rate, after.rate, piece.steps))
        return True

    def _decide(self, contest: Contest, entered: Sequence[Contest]) -> None:
        """Decide a contest if more pairs would change nothing, and end its leg."""
        least, candidate = self._series_of(contest.holds).least, contest.candidate
        if candidate is None:
            judged = any(
                other.twin and not other.decided
                for other in entered
                if other.holds == contest.holds
            )
            contest.decided = contest.decided or (not judged and self._met_itself(contest, least))
            if self._slots == 2 and self._controls_decided:
                contest.leg.end()
            return
        if contest.decided:  # with its twin
            return
        if candidate.difference is None:
            worth = candidate.worth(contest.worth, self._kept(entered, contest))
            over = len(contest.pairs) >= self._at_least and self._over(contest, least, worth)
        else:
            found = self._both(contest)
            over = found is not None and is_told(found, candidate.difference, least)
            over = over or len(contest.pairs) >= MOST_TO_JUDGE
        if contest.leg.ran_out and not over:
            contest.goes_on_with(self._leg_of(candidate))
            return
        contest.decided = bool(contest.failure) or over or beaten(contest, entered)
        if contest.decided:
            contest.leg.end()
            self._end_twin(contest)

    def _end_twin(self, contest: Contest) -> None:
        """Decide the other process of a change with it."""
        twin = contest.twin
        if twin is not None and not twin.decided:
            twin.failure, twin.decided = twin.failure or contest.failure, True
            twin.leg.end()

    def _kept(self, entered: Sequence[Contest], but: Contest) -> float:
        """How many times as fast the steps are with the best that pays: another has the rest.

        Not with what changes the experiment, or is the same change made otherwise.
        """
        best = 1.0
        for contest in entered if not self._at_least else ():
            own, other = contest.candidate, but.candidate
            if own is None or other is None or own.apart or set(own.fixes) & set(other.fixes):
                continue
            least = 1 + self._series_of(contest.holds).least
            if contest.decided and contest.ratio is not None and contest.ratio.low > least:
                best = max(best, contest.ratio.low)
        return best

    def _met_itself(self, control: Contest, least: float) -> bool:
        if control.failure:
            return True
        if self._over is enough:
            return met_itself(control, least)
        return self._over(control, least, control.worth)

    def _base_slice(self, clock: Clock, series: Series) -> Slice | None:
        try:
            return series.slice_of(self._base, self._base, clock)
        except LegFailed as failed:
            # What was measured until then counts; nothing can be compared any more.
            self._base.failure, self._before = str(failed), None
            if not self._base.ran_out:
                raise
            return None

    # -------------------------------------------------------------- who does not fit

    def _failed(self, contest: Contest, reason: str) -> None:
        """Note that a contest's leg cannot go on; of one without memory, who lived beside it."""
        contest.failure = reason
        if contest.leg.short_of_memory:
            self._beside.setdefault(contest.leg.name, self._living)
        if not contest.leg.ran_out:
            contest.decided = True
            self._end_twin(contest)
        if contest.candidate is None and not contest.pairs and contest.leg.short_of_memory:
            raise LegFailed(reason)  # what else stands there finds no memory either

    def _makes_room(self, contest: Contest) -> None:
        """End a contest's leg, which is to start again: the control found no memory beside it."""
        self._beside[contest.leg.name] = max(2, self._living)
        contest.leg.end()
        contest.leg.short_of_memory = True

    @property
    def _living(self) -> int:
        return sum(leg.alive for leg in self._made)

    def _taken_out(self, entered: list[Contest]) -> list[Candidate]:
        """Take those that ran out of memory out of `entered`; return who can start again.

        Memory that runs out is no fault of a change as long as others take a part of it.
        """
        again = []
        for contest in [one for one in entered if one.leg.short_of_memory]:
            entered.remove(contest)
            candidate = contest.candidate
            assert candidate is not None
            others = self._beside.pop(candidate.name, 0)
            if others > 1:
                self._slots = min(self._slots, others)
                self._notes[candidate.name] = FEWER
                again.append(candidate)
                if self._slots == 2 and self._controls_decided:
                    self._control.end()
            else:
                self._to_be_alone((candidate,))
        return again

    def _to_be_alone(self, candidates: Sequence[Candidate]) -> None:
        """Try these alone: they do not fit beside the unchanged script."""
        self._alone += candidates
        self._notes |= {candidate.name: ALONE for candidate in candidates}

    def _tried_alone(self, clock: Clock) -> list[Measured]:
        """Run those one after another that do not fit beside the unchanged script."""
        chosen, self._alone = self._alone, []
        if not chosen or clock.over():
            return [self._missed(candidate, LATE) for candidate in chosen]
        end_all((self._base, self._control))
        try:
            found = self._in_fresh_processes(chosen, clock, nothing)
        except LegFailed as failed:
            why = LATE if clock.over() else f"{NOT_COMPARED} {failed}"
            found = [self._missed(candidate, why) for candidate in chosen]
        return [replace(one, note=self._note(one.name, one.late)) for one in found]

    def _in_fresh_processes(
        self, candidates: Sequence[Candidate], clock: Clock, keep: Keep
    ) -> list[Measured]:
        bench = self.bench
        self._fresh = self._fresh or FreshProcesses(
            bench.run, bench.folder / "alone", bench.costs, self._guard, bench.say
        )
        return self._fresh.compare(candidates, clock, keep)

    # ------------------------------------------------------------------------- words

    def _note(self, name: str, late: bool = False) -> str:
        """How a candidate was measured, if not as the others were; `late`: it was not."""
        found = self._notes.get(name, "")
        return RAN_OUT if found and late else found

    def _missed(self, candidate: Candidate, why: str) -> Measured:
        note = self._note(candidate.name, late=why == LATE)
        return Measured(candidate.name, None, None, why, note=note, holds=candidate.holds)

    def _measured(self, contest: Contest) -> Measured:
        return Measured(
            name=contest.leg.name,
            ratio=self._both(contest),
            losses=parity.read_losses(contest.first.trained),
            failure=contest.failure,
            start=start_of(contest.first),
            pairs=tuple(contest.pairs),
            note=self._note(contest.leg.name),
            holds=contest.holds,
        )

    def _tell(self, entered: Sequence[Contest], waiting: Sequence[Candidate]) -> None:
        total = len(entered) + len(waiting)
        decided = sum(contest.decided for contest in entered)
        starting = sum(contest.leg.starting for contest in entered if not contest.decided)
        if self._base.starting or not any(contest.pairs for contest in entered):
            return self.bench.say("warming up", decided / total if total else None)
        text = f"taking turns: {decided} of {total} decided"
        text += f", {starting} starting" if starting else ""
        return self.bench.say(text, decided / total)

    def _leg_of(self, candidate: Candidate) -> Leg:
        return self._leg(candidate.name, candidate.run, candidate.work, candidate.compiles)

    def _leg(self, name: str, run: Run, work: float = 1.0, slow: bool = False) -> Leg:
        leg = Leg(name, run, self.bench.folder / f"{LEG}{len(self._made) + 1}", work, slow)
        self._made.append(leg)
        return leg


def _far(contest: Contest) -> bool:
    """Whether a gain in long slices is beyond all noise: it is measured once more if it is kept."""
    far = (1 + FAR) ** 2
    return contest.holds is not None and contest.ratio is not None and contest.ratio.low > far


def _gains(contest: Contest) -> bool:
    """Whether a contest has shown a gain, which is kept once the control has told of the noise."""
    return contest.ratio is not None and contest.ratio.low > 1 + SMALLEST_GAIN


def _candidates(contests: Sequence[Contest]) -> list[Candidate]:
    return [contest.candidate for contest in contests if contest.candidate is not None]

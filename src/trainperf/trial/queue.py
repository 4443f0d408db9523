"""One queue of trials: who can change the answer most in a second is let run next.

The legs of a script live beside each other and one of them runs at a time: a slice of steps that
are timed, beside slices of the script as it is, or a slice of starting, of as many legs as the
cores let start together. Whoever starts, warms up or compiles is paused in between, so that
nothing waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from trainperf.model import Run
from trainperf.recording.run import Epoch
from trainperf.run.stopping import LEG
from trainperf.trial import parity
from trainperf.trial.budget import LATE, NO_SLICE, Bench, Clock
from trainperf.trial.candidates import Candidate
from trainperf.trial.contest import MOST_TO_JUDGE, Contest, Rule, beaten, enough, is_told
from trainperf.trial.fresh import FreshProcesses, Look, Rest, nothing_more
from trainperf.trial.legs.leg import Leg, LegFailed, Slice, end_all
from trainperf.trial.legs.starting import let_start, together
from trainperf.trial.outcome import Baseline, Measured, baseline, control_of, start_of
from trainperf.trial.ratio import Pair
from trainperf.trial.series import Series

NOT_COMPARED = "could not be compared: the script as it is"
RAN_OUT = "it ran out of memory beside other legs"
ALONE = f"{RAN_OUT}, and was tried alone"
TURN_S = 2.0
"""So long contests take turns before legs that start may go on: caches are cold after that."""
MORE_S = 15.0
MORE_TIMES = 3.0
"""A leg may take so much longer to start than the slowest that has, if it does not compile."""
OVERDUE = 2.0
"""From so many times the usual start on a leg is none of those that start next."""


class Queue:
    """Compares candidates with the unchanged script in turns, all of them in one queue.

    Who runs out of memory beside others is tried alone, in fresh processes, and from then on no
    more live beside each other than did then. Where two legs fit the control meets the unchanged
    script first, then each candidate does; where one fits each runs by itself. Use as a context
    manager: no process is left when it closes.
    """

    def __init__(
        self,
        bench: Bench,
        over: Rule = enough,
        controlled: bool = True,
    ) -> None:
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
        self._round = 0
        self._waiting: list[Candidate] = []
        self._entered: list[Contest] = []
        self._left_out: list[Measured] = []
        self._alone: dict[str, Candidate] = {}
        self._fresh = FreshProcesses(bench, self._guard)

    def __enter__(self) -> Queue:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()
        self._guard.__exit__(*error)

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
        return sum(leg.started_s > 0 for leg in self._made) + self._fresh.legs

    @property
    def compared_s(self) -> float:
        """Seconds of the slices that were compared, those of fresh processes as well."""
        beside = sum(series.compared_s for series in self._series.values())
        return beside + self._fresh.compared_s

    def compare(
        self,
        candidates: Sequence[Candidate],
        clock: Clock,
        look: Look = nothing_more,
    ) -> list[Measured]:
        """Run the candidates in turn with the unchanged script until each is decided.

        The first ones start first; who is decided makes room for the next, and a `look` at what was
        measured may name others then, which are the next, and leave some out. Goes on until all are
        decided or the time is over, less what is to be kept. Raises `LegFailed` if the unchanged
        script cannot be run so.
        """
        if self._slots == 1:
            return self._fresh.compare(candidates, clock, look)
        for candidate in sorted(candidates, key=lambda candidate: candidate.holds is not None):
            self._series_of(candidate.holds)
        self._waiting, self._entered, failure = list(candidates), [], LATE
        self._left_out = []
        names = [candidate.name for candidate in candidates]
        early, known = clock.keeping(look((), ()).keep_s), 0
        try:
            while not (early.over() and (self._entered or clock.over())):
                decided = [contest for contest in self._entered if contest.decided]
                if len(decided) != known:
                    told = [self._measured(contest) for contest in decided if not contest.again]
                    trying = [contest.candidate for contest in self._open if contest.candidate]
                    rest = look(told, [*self._waiting, *trying])
                    early = clock.keeping(rest.keep_s)
                    names += self._take_in(rest, names)
                    known = sum(contest.decided for contest in self._entered)
                self._enter(early)
                if not self._advance(early):
                    break
                self._take_out()
        except LegFailed as failed:
            if not any(contest.pairs for contest in self._entered):
                raise
            # What was measured until then stands, whatever became of the script since.
            failure = LATE if clock.over() else f"{NOT_COMPARED} {failed}"
            self._no_more(failure)
        finally:
            end_all([contest.leg for contest in self._entered])
        self._take_out()
        found = [self._measured(contest) for contest in self._entered if not contest.again]
        found += self._tried_alone(clock.keeping(look(found, ()).keep_s))
        found += [Measured(candidate, None, None, failure) for candidate in self._waiting]
        found += self._left_out
        by_name = {measured.name: measured for measured in found}
        return [by_name[name] for name in names]

    def _take_in(self, rest: Rest, known: Sequence[str]) -> list[str]:
        """Let in what else is to be tried; decide what is needless by now.

        Returns the names of the new ones, which are none of those `known`.
        """
        new = [candidate for candidate in rest.more if candidate.name not in known]
        tried = {contest.candidate.name: contest for contest in self._open if contest.candidate}
        for name, reason in rest.needless.items():
            if name in tried:
                tried[name].needless, tried[name].decided = reason, True
                tried[name].leg.end()
                self._end_twin(tried[name])
                continue
            gone = next(candidate for candidate in self._waiting if candidate.name == name)
            self._waiting.remove(gone)
            self._left_out.append(Measured(gone, None, None, needless=reason))
        self._waiting = [*new, *self._waiting]
        return [candidate.name for candidate in new]

    def baseline(self, holds: Epoch | None = None) -> Baseline:
        """The unchanged script as it was measured in slices that hold epochs, or steps.

        Of another kind where it made none of this. Raises `LegFailed` if it made no slice.
        """
        made = {series.holds: series for series in self._series.values() if series.slices}
        if self._fresh.compared_s and (self._slots == 1 or not made):
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
            self._series[holds] = Series(self.bench.costs.holding(holds), control, self._over)
        return self._series[holds]

    @property
    def _controls(self) -> list[Contest]:
        return [series.control for series in self._series.values()]

    @property
    def _controls_over(self) -> bool:
        return all(control.decided for control in self._controls)

    # ------------------------------------------------------------------- who is next

    def _enter(self, clock: Clock) -> None:
        """Let the next ones in, as many as there are slots, and time, for.

        None that changes the experiment comes before one that does not.
        """
        if self._slots == 2 and not self._controls_over:
            return
        held = 1 + (self._slots > 2)
        while self._waiting:
            open_ = self._open
            starting = sum(contest.leg.starting and not self._overdue(contest) for contest in open_)
            if len(open_) + held >= max(self._slots, held + 1) or starting > self._at_once:
                return
            candidate = self._waiting[0]
            costs = self._series_of(candidate.holds).costs
            needed = self._start_s(candidate) + costs.comparing(1, 3)
            if self._base.ready_s is not None and needed > clock.left:
                return
            contest = Contest(self._leg_of(candidate), self._waiting.pop(0))
            self._entered.append(contest)
            if candidate.difference is not None and self._slots > 3:
                contest.twin = Contest(self._leg_of(candidate), candidate, twin=contest, again=True)
                self._entered.append(contest.twin)

    def _advance(self, clock: Clock) -> bool:
        """Let those run who can change the answer most; False where there is nobody left."""
        base = self._base
        if base.failure and not (base.ran_out or base.short_of_memory):
            raise LegFailed(base.failure)
        if base.failure or (base.ready_s is not None and not base.alive):
            base.end()  # its loop came to its end, or others had to have its memory
            self._base, self._before = self._leg("", self.bench.run), None
        for contest in self._entered:
            if contest.pairs and not contest.decided:
                self._decide(contest)  # the control may tell by now
        if not (self._open or self._waiting or self._lacks_control):
            return False
        rates = self._rates()
        order = sorted(rates, key=lambda contest: -rates[contest])
        legs = [self._base] if self._base.starting else []
        legs += [contest.leg for contest in order if contest.leg.starting]
        turns = [contest for contest in order if not contest.leg.starting]
        legs = together(list(dict.fromkeys(legs)), self._at_once, self.bench.costs.spin)
        if not (legs or turns):
            return False
        started, at_turn = sum(rates[contest] for contest in order if contest.leg in legs), 0.0
        if turns:
            series = self._series_of(turns[0].holds)
            turns = [contest for contest in turns if contest.holds == series.holds]
            at_turn = sum(rates[contest] for contest in turns[: series.beside_each_other])
        self._tell()
        if legs and (self._base in legs or not turns or started > at_turn):
            self._start(legs, clock)
        else:
            self._take_turns(turns, clock, series)
        return True

    def _rates(self) -> dict[Contest, float]:
        """Those who may run next, each with what it may save in a second.

        The first of the report is tried first, then what pays together, and what is judged is in
        all its processes.
        """
        judged = [contest for contest in self._entered if contest.twin is not None]
        first = [*judged, *self._controls] if judged else self._entered[:1]
        first += [contest for contest in self._entered if contest.joins]
        waits = [contest for contest in self._open if self._series_of(contest.holds).waits(contest)]
        rates = {
            contest: self._rate(contest, contest in first)
            for contest in self._open
            if contest not in waits
        }
        for series in self._series.values():
            control, own = series.control, self._own(series)
            helps = self._over is not enough or self._slots == 2
            helps = helps or (bool(self._alone) and not series.tells_noise)
            if not control.decided and (helps or series.control_helps(own, self._made_any)):
                waiting = [contest for contest in waits if contest in own]
                rates[control] = self._rate(control, control in first, waiting)
        return rates

    @property
    def _open(self) -> list[Contest]:
        return [contest for contest in self._entered if not contest.decided]

    def _own(self, series: Series) -> list[Contest]:
        """The contests in slices of a series."""
        return [contest for contest in self._entered if contest.holds == series.holds]

    @property
    def _made_any(self) -> bool:
        """Whether the script has made a slice."""
        return any(series.slices for series in self._series.values())

    @property
    def _lacks_control(self) -> bool:
        """Whether the control is needed by what was seen: a gain, or one that fails.

        The script itself may fail beside itself, and find no memory. Where nothing else was
        measured it is what the script is measured with.
        """
        lacking = [series for series in self._series.values() if not series.tells_noise]
        if not lacking:
            return False
        failed = any(contest.failure for contest in self._entered)
        return (
            not self._made_any
            or bool(self._alone)
            or (failed and self._control.starting)
            or any(series.near(self._own(series)) for series in lacking)
        )

    def _rate(self, contest: Contest, first: bool, waits: Sequence[Contest] = ()) -> float:
        """What a contest may save in a second; who is `first` starts first.

        Unless it holds up all others.
        """
        series, start_s = self._series_of(contest.holds), self._start_s(contest.candidate)
        rate = series.rate(contest, start_s, waits)
        return rate + (first and contest.leg.starting and not self._overdue(contest))

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

    # ---------------------------------------------------------------------- starting

    def _start(self, legs: Sequence[Leg], clock: Clock) -> None:
        """Let legs start, until one of them stands at its first slice or it is others' turn.

        Raises `LegFailed` where nothing can be compared.
        """
        self._before = None
        costs, usual = self.bench.costs, self._base.ready_s
        epochs = max((leg.run.leg.warm_up_epochs for leg in legs if leg.run.leg), default=0)
        limit = 30 + 4 * (costs.starting(len(legs)) + epochs * (costs.epoch_s or 0.0))
        if usual is not None and not epochs:
            limit = min(limit, MORE_S + MORE_TIMES * usual)
        let_start(legs, self._guard, limit, clock.over, costs.spin)
        if clock.over():
            for leg in (self._base, self._control):
                if leg in legs and leg.starting:
                    leg.give_up(LATE)
        if self._base.failure:
            raise LegFailed(self._base.failure)
        failure = self._control.failure
        if failure and self._control in legs:
            for control in self._controls:
                control.failure, control.decided = failure, True
            one_by_one = replace(self.bench.costs, slots=1)
            if one_by_one.trying(max(1, len(self._entered))) <= clock.left:
                # The same script as the one that stands: only beside itself does it fail,
                # and so may each candidate, whatever its change is worth.
                raise LegFailed(failure)
        for contest in self._entered:
            if contest.leg.failure and not contest.failure and not contest.leg.ran_out:
                self._failed(contest, contest.leg.failure)

    # ------------------------------------------------------------------------- turns

    def _take_turns(self, turns: Sequence[Contest], clock: Clock, series: Series) -> None:
        """Let contests of a series have slices between slices of the script, for some seconds."""
        until = time.monotonic() + TURN_S
        while turns and time.monotonic() < until and not clock.over():
            group, self._round = list(turns[: series.beside_each_other]), self._round + 1
            # Back and forth, so that none is always the first after a change of mood.
            if not self._between(group[:: 1 if self._round % 2 else -1], clock, series):
                return
            for contest in group:
                self._decide(contest)
            turns = [*turns[len(group) :], *group]
            turns = [
                contest
                for contest in turns
                if contest.leg.alive and not (contest.decided or series.waits(contest))
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
            contest.pairs.append(Pair(piece.rate, before.rate, after.rate, piece.updates))
        return True

    def _decide(self, contest: Contest) -> None:
        """Decide a contest if more pairs would change nothing, and end its leg."""
        series, candidate = self._series_of(contest.holds), contest.candidate
        if candidate is None:
            judged = any(other.twin and not other.decided for other in self._own(series))
            contest.decided = contest.decided or (not judged and series.met_itself())
            if self._slots == 2 and self._controls_over:
                contest.leg.end()
            return
        if contest.decided:  # with its twin
            return
        if candidate.difference is None:
            over = len(contest.pairs) >= candidate.pairs
            over = over and self._over(contest, series.least, candidate.worth(contest.worth))
        else:
            found = series.both(contest)
            over = found is not None and is_told(found, candidate.difference, series.least)
            over = over or len(contest.pairs) >= MOST_TO_JUDGE
        if contest.leg.ran_out and not over:
            contest.leg, contest.failure = self._leg_of(candidate), ""
            return
        contest.decided = bool(contest.failure) or over or beaten(contest, self._entered)
        if contest.decided:
            contest.leg.end()
            self._end_twin(contest)

    def _end_twin(self, contest: Contest) -> None:
        """Decide the other process of a change with it."""
        twin = contest.twin
        if twin is not None and not twin.decided:
            twin.failure, twin.decided = twin.failure or contest.failure, True
            twin.leg.end()

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
        """Note that a contest's leg cannot go on."""
        contest.failure = reason
        if contest.leg.short_of_memory:
            living = sum(leg.alive for leg in self._made)
            self._slots = min(self._slots, living) if living > 1 else self._slots
        if not contest.leg.ran_out:
            contest.decided = True
            self._end_twin(contest)
        if contest.candidate is None and not contest.pairs and contest.leg.short_of_memory:
            raise LegFailed(reason)  # what else stands there finds no memory either

    def _no_more(self, failure: str) -> None:
        """Note that the script cannot be run beside others, if so for want of memory: at all."""
        short = self._base.short_of_memory or self._control.short_of_memory
        for contest in self._entered:
            if contest.ratio is None and not contest.failure:
                contest.failure, contest.leg.short_of_memory = failure, short
        if short:
            self._slots = 1
            self._alone |= {candidate.name: candidate for candidate in self._waiting}
            self._waiting = []

    def _take_out(self) -> None:
        """Take out those that ran out of memory, to be tried alone.

        That is no fault of a change as long as others take a part of the memory.
        """
        short = [contest for contest in self._entered if contest.leg.short_of_memory]
        self._entered = [contest for contest in self._entered if contest not in short]
        candidates = [contest.candidate for contest in short if contest.candidate is not None]
        self._alone |= {candidate.name: candidate for candidate in candidates}
        if short and self._slots == 2 and self._controls_over:
            self._control.end()

    def _tried_alone(self, clock: Clock) -> list[Measured]:
        """Run those one after another that do not fit beside the unchanged script."""
        chosen, self._alone = list(self._alone.values()), {}
        if not chosen or clock.over():
            return [Measured(candidate, None, None, LATE, note=RAN_OUT) for candidate in chosen]
        self.close()
        try:
            found = self._fresh.compare(chosen, clock)
        except LegFailed as failed:
            why = LATE if clock.over() else f"{NOT_COMPARED} {failed}"
            found = [Measured(candidate, None, None, why) for candidate in chosen]
        return [replace(one, note=RAN_OUT if one.late else ALONE) for one in found]

    # ------------------------------------------------------------------------- words

    def _measured(self, contest: Contest) -> Measured:
        assert contest.candidate is not None
        return Measured(
            contest.candidate,
            ratio=self._series_of(contest.holds).both(contest),
            losses=parity.read_losses(contest.first.trained),
            failure=contest.failure,
            needless=contest.needless,
            start=start_of(contest.first),
            pairs=tuple(contest.pairs),
        )

    def _tell(self) -> None:
        total = len(self._entered) + len(self._waiting)
        decided = len(self._entered) - len(self._open)
        starting = sum(contest.leg.starting for contest in self._open)
        text = f"taking turns: {decided} of {total} decided"
        text += f", {starting} starting" if starting else ""
        if self._base.starting or not any(contest.pairs for contest in self._entered):
            text = "warming up"
        self.bench.say(text, decided / total if total else None)

    def _leg_of(self, candidate: Candidate) -> Leg:
        return self._leg(candidate.name, candidate.run, candidate.work, candidate.compiles)

    def _leg(self, name: str, run: Run, work: float = 1.0, slow: bool = False) -> Leg:
        leg = Leg(name, run, self.bench.folder / f"{LEG}{len(self._made) + 1}", work, slow)
        self._made.append(leg)
        return leg

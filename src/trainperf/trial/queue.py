"""One queue of trials: what may save most is let run first.

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

from trainperf.model import Ratio, Run
from trainperf.recording.run import Epoch
from trainperf.run.stopping import LEG
from trainperf.trial import parity
from trainperf.trial.budget import NO_SLICE, Bench, Clock
from trainperf.trial.candidates import Candidate
from trainperf.trial.contest import Contest, Rule, Series, enough
from trainperf.trial.fresh import FreshProcesses, Look, nothing_else
from trainperf.trial.legs.faults import LegFailed, NotCompared, OutOfMemory, OutOfTime
from trainperf.trial.legs.leg import Leg, Slice, end_all
from trainperf.trial.legs.starting import let_start, together
from trainperf.trial.outcome import Baseline, Measured, baseline, start_of
from trainperf.trial.ratio import Pair, of_two

RAN_OUT = "it ran out of memory beside other legs"
ALONE = f"{RAN_OUT}, and was tried alone"
PROCESSES = ("in a fresh process", "in another")
"""The processes of a change that runs in two, as they are told of."""
TURN_S = 2.0
"""So long contests take turns before legs that start may go on: caches are cold after that."""
MORE_S = 15.0
MORE_TIMES = 3.0
"""A leg may take so much longer to start than the slowest that has, if it does not compile."""
OVERDUE = 2.0
"""From so many times the usual start on a leg takes turns with those that stand, as one of them."""


class Queue:
    """Compares candidates with the unchanged script in turns, all of them in one queue.

    Who runs out of memory beside others is tried alone, in fresh processes, and from then on no
    more live beside each other than did then. Where two legs fit the control meets the unchanged
    script first, then each candidate does; where one fits each runs by itself. `over` says when a
    contest is decided. Use as a context manager: no process is left when it closes.
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
        self._round = 0
        self._started_last = False
        self._contests: list[Contest] = []  # those of what is compared now
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
        look: Look = nothing_else,
    ) -> list[Measured]:
        """Run the candidates in turn with the unchanged script until each is decided.

        The first ones start first; who is decided makes room for the next, and a `look` at what was
        measured may leave some out then. Goes on until all are decided or the time is over, less
        what is to be kept. Raises `LegFailed` if the unchanged script cannot be run so.
        """
        if self._slots == 1:
            return self._fresh.compare(candidates, clock, look)
        for candidate in sorted(candidates, key=lambda candidate: candidate.holds is not None):
            self._series_of(candidate.holds)
        processes = [process for candidate in candidates for process in self._processes(candidate)]
        self._contests = [Contest(self._leg_of(process), process) for process in processes]
        failure: LegFailed = OutOfTime()
        try:
            self._run(clock, look)
        except LegFailed as failed:
            if not any(contest.pairs for contest in self._contests):
                raise
            # What was measured until then stands, whatever became of the script since.
            late = clock.over() or isinstance(failed, OutOfTime)
            short = isinstance(failed, OutOfMemory)
            failure = OutOfTime() if late else failed if short else NotCompared(failed)
        finally:
            end_all([contest.leg for contest in self._contests if contest.leg.started_s])
        for contest in self._contests:
            if contest.ratio is None and not contest.needless:
                contest.failure = contest.failure or failure
        found = self._measurements(self._contests)
        if isinstance(failure, OutOfMemory):
            self._slots = 1
        alone = [measured for measured in found if isinstance(measured.failure, OutOfMemory)]
        found += self._tried_alone(alone, clock.keeping(look(found, ())[0]))
        by_name = {measured.name: measured for measured in found}
        return [by_name[candidate.name] for candidate in candidates]

    def _processes(self, candidate: Candidate) -> list[Candidate]:
        """What is to be judged runs in two processes, where there is room for both."""
        if candidate.difference is None or self._slots <= 3:
            return [candidate]
        return [replace(candidate, variant=process) for process in PROCESSES]

    def _processes_of(self, contest: Contest) -> list[Contest]:
        """The contest, and that of the other process in which its change is judged."""
        if not contest.is_judged:
            return [contest]
        return [other for other in self._contests if other.fixes == contest.fixes]

    def _ratio_of(self, contest: Contest) -> Ratio | None:
        """The speed-up of a change until now, in all processes that run it."""
        own, *again = [process.ratio for process in self._processes_of(contest)]
        control = self._series_of(contest.holds).control.ratio
        for other in again:
            own = own and other and control and of_two(own, other, control.speedup)[0]
        return own

    def _run(self, clock: Clock, look: Look) -> None:
        """Let legs start and take turns until all are decided or the time is over."""
        early, known = clock.keeping(look((), ())[0]), 0
        while not (early.over() and (self._entered or clock.over())):
            decided = [contest for contest in self._contests if contest.decided]
            if len(decided) != known:
                left = [contest.candidate for contest in self._contests if not contest.decided]
                keep_s, needless = look(self._measurements(decided), list(filter(None, left)))
                early = clock.keeping(keep_s)
                for contest in self._contests:
                    if not contest.decided and contest.leg.name in needless:
                        contest.needless = needless[contest.leg.name]
                        self._decided(contest)
                known = sum(contest.decided for contest in self._contests)
            self._enter(early)
            if not self._advance(early):
                return

    def baseline(self, holds: Epoch | None = None) -> Baseline:
        """The unchanged script as it was measured in slices that hold epochs, or steps.

        Of another kind where it made none of this. Raises `LegFailed` if it made no slice.
        """
        made = {series.holds: series for series in self._series.values() if series.slices}
        if self._fresh.compared_s and (self._slots == 1 or not made):
            return self._fresh.baseline(holds)
        if not made:
            raise self._base.failure or OutOfTime(NO_SLICE)
        series = made.get(holds) or next(iter(made.values()))
        losses = parity.read_losses(self._reference.trained)
        first = series.control.first
        band = parity.control(losses, parity.read_losses(first.trained))
        starts = [start_of(leg) for leg in (self._reference, first)]
        return baseline(series.slices, losses, band, series.control.ratio, starts)

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
    def _controls_over(self) -> bool:
        return all(series.control.decided for series in self._series.values())

    @property
    def _entered(self) -> list[Contest]:
        return [contest for contest in self._contests if contest.entered]

    @property
    def _open(self) -> list[Contest]:
        return [contest for contest in self._entered if not contest.decided]

    # ------------------------------------------------------------------- who is next

    def _enter(self, clock: Clock) -> None:
        """Let the next ones in, as many as there are slots, and time, for.

        None that changes the experiment comes before one that does not.
        """
        if self._slots == 2 and not self._controls_over:
            return
        for contest in self._contests:
            if contest.entered or contest.decided:
                continue
            open_ = self._open
            starting = sum(other.leg.starting and not self._overdue(other) for other in open_)
            room = self._slots - 1 - (self._slots > 2)  # beside the script and its control
            if len(open_) >= room or starting > self._at_once:
                return
            needed = self._start_s(contest.candidate)
            needed += self._series_of(contest.holds).costs.comparing(1, 3)
            if self._base.ready_s is not None and needed > clock.left:
                return
            contest.entered = True

    def _advance(self, clock: Clock) -> bool:
        """Let those run who can change the answer most; False where there is nobody left."""
        base = self._base
        if base.failure and not (base.ran_out or isinstance(base.failure, OutOfMemory)):
            raise base.failure
        if base.failure or (base.ready_s is not None and not base.alive):
            base.end()  # its loop came to its end, or others had to have its memory
            base = self._base = self._leg("", self.bench.run)
            self._before = None
        for contest in self._entered:
            if contest.pairs and not contest.decided:
                self._decide(contest)  # the control may tell by now
        order = self._order()
        slow = {one.leg for one in order if one.leg.compiles or self._overdue(one)}
        left = order or not all(contest.decided for contest in self._contests)
        legs = [base] if base.starting and left else []
        legs += [contest.leg for contest in order if contest.leg.starting]
        legs = together(list(dict.fromkeys(legs)), self._at_once, self.bench.costs.spin)
        turns = [contest for contest in order if not contest.leg.starting]
        if not (legs or turns):
            return False
        self._tell()
        starts = bool(legs) and (base in legs or not turns)
        if turns:
            series = self._series_of(turns[0].holds)
            turns = [contest for contest in turns if contest.holds == series.holds]
            if slow.issuperset(legs):
                starts = starts or (bool(legs) and not self._started_last)
            else:
                judged = any(contest.is_judged for contest in turns)
                starts = starts or judged or len(turns) < series.beside_each_other
        self._started_last = starts
        if starts:
            self._start(legs, clock)
        else:
            self._take_turns(turns, clock, series)
        return True

    def _order(self) -> list[Contest]:
        """Those who may run next: the first of the report, the control where it helps, the others.

        Who starts for longer than is usual comes last. What is to be judged is so at the same time.
        """
        order = [
            contest for contest in self._open if not self._series_of(contest.holds).waits(contest)
        ]
        made_any = any(series.slices for series in self._series.values())
        for series in self._series.values():
            own = self._of_kind(series)
            alone = self._slots == 2 and not series.control.decided
            if alone or series.control_helps(own, made_any):
                order.insert(1, series.control)
        judged = any(contest.is_judged for contest in order)
        pairs = {contest: len(contest.pairs) * judged for contest in order}
        return sorted(order, key=lambda contest: (self._overdue(contest), pairs[contest]))

    def _of_kind(self, series: Series) -> list[Contest]:
        """The contests whose slices are of the kind of a series."""
        return [contest for contest in self._entered if contest.holds == series.holds]

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
                    leg.give_up(OutOfTime())
        if self._base.failure:
            raise self._base.failure
        failure = self._control.failure
        if failure and self._control in legs:
            for series in self._series.values():
                series.control.failure, series.control.decided = failure, True
            if replace(costs, slots=1).trying(max(1, len(self._entered))) <= clock.left:
                # The same script as the one that stands: only beside itself does it fail,
                # and so may each candidate, whatever its change is worth.
                raise failure
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
            turns = [
                contest
                for contest in (*turns[len(group) :], *group)
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
                self._failed(contest, failed)
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

    def _base_slice(self, clock: Clock, series: Series) -> Slice | None:
        try:
            return series.slice_of(self._base, self._base, clock)
        except LegFailed as failed:
            # What was measured until then counts; nothing can be compared any more.
            self._base.failure, self._before = failed, None
            if not self._base.ran_out:
                raise
            return None

    def _decide(self, contest: Contest) -> None:
        """Decide a contest if more pairs would change nothing, and end its leg."""
        series, candidate = self._series_of(contest.holds), contest.candidate
        if candidate is None:
            contest.decided = series.met_itself(self._of_kind(series))
            if self._slots == 2 and self._controls_over:
                contest.leg.end()
            return
        over = series.is_over(contest, self._ratio_of(contest), series.least)
        if contest.leg.ran_out and not over:
            contest.leg, contest.failure = self._leg_of(candidate), None
        elif contest.failure or over:
            self._decided(contest)

    def _decided(self, contest: Contest) -> None:
        """Decide a contest, with the other process of its change, and end its leg."""
        for process in self._processes_of(contest):
            process.failure = process.failure or contest.failure
            process.decided = True
            process.leg.end()

    # -------------------------------------------------------------- who does not fit

    def _failed(self, contest: Contest, failure: LegFailed) -> None:
        """Note that a contest's leg cannot go on."""
        contest.failure = failure
        short = isinstance(failure, OutOfMemory)
        living = sum(leg.alive for leg in self._made)
        if short and living > 1:
            self._slots = min(self._slots, living)
        if not contest.leg.ran_out:
            self._decided(contest)
        if short and self._slots == 2 and self._controls_over:
            self._control.end()
        if short and contest.candidate is None and not contest.pairs:
            raise failure  # what else stands there finds no memory either

    def _tried_alone(self, short: Sequence[Measured], clock: Clock) -> list[Measured]:
        """Run those one after another that ran out of memory beside others.

        That is no fault of a change as long as others take a part of the memory.
        """
        chosen = [measured.candidate for measured in short]
        if not chosen or clock.over():
            return [Measured(candidate, failure=OutOfTime(), note=RAN_OUT) for candidate in chosen]
        self.close()
        try:
            found = self._fresh.compare(chosen, clock)
        except LegFailed as failed:
            why = OutOfTime() if clock.over() else NotCompared(failed)
            found = [Measured(candidate, failure=why) for candidate in chosen]
        return [replace(one, note=RAN_OUT if one.late else ALONE) for one in found]

    # ------------------------------------------------------------------------- words

    def _measurements(self, contests: Sequence[Contest]) -> list[Measured]:
        """What was measured of contests, each change once."""
        found = []
        for contest in contests:
            processes = self._processes_of(contest)
            if contest.candidate is None or contest is not processes[0]:
                continue
            judged, failures = contest.is_judged, (process.failure for process in processes)
            measured = Measured(
                replace(contest.candidate, variant="") if judged else contest.candidate,
                ratio=self._ratio_of(contest),
                losses=parity.read_losses(contest.first.trained),
                failure=next(filter(None, failures), None),
                needless=contest.needless,
                start=start_of(contest.first),
                pairs=tuple(contest.pairs),
            )
            found.append(measured)
        return found

    def _tell(self) -> None:
        changes = [one for one in self._contests if one is self._processes_of(one)[0]]
        total, decided = len(changes), [contest for contest in changes if contest.decided]
        gains = {
            contest.leg.name: contest.ratio.speedup
            for contest in decided
            if contest.ratio and contest.gains and not contest.failure
            if contest.candidate is not None and not contest.candidate.apart
        }
        text = f"trying changes: {len(decided)} of {total} decided"
        if gains:
            best = max(gains, key=gains.__getitem__)
            text += f"; fastest so far {best} {gains[best]:.2f}×"
        if self._base.starting or not any(contest.pairs for contest in self._contests):
            text = "warming up"
        self.bench.say(text, len(decided) / total if total else None)

    def _leg_of(self, candidate: Candidate) -> Leg:
        return self._leg(candidate.name, candidate.run, candidate.work, candidate.compiles)

    def _leg(self, name: str, run: Run, work: float = 1.0, slow: bool = False) -> Leg:
        leg = Leg(name, run, self.bench.folder / f"{LEG}{len(self._made) + 1}", work, slow)
        self._made.append(leg)
        return leg

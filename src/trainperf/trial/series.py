"""Slices of one kind, of steps or of whole epochs: none is compared with one of another kind."""

from __future__ import annotations

from collections.abc import Sequence

from trainperf.model import Ratio
from trainperf.recording.run import Epoch
from trainperf.trial import parity
from trainperf.trial.budget import Clock, Costs
from trainperf.trial.candidates import SMALLEST_GAIN
from trainperf.trial.contest import (
    FAR,
    MIN_PAIRS,
    SHORT,
    SHORT_TRIES,
    Contest,
    Rule,
    enough,
    met_itself,
    pairs_to_come,
    take,
)
from trainperf.trial.legs.faults import OutOfMemory
from trainperf.trial.legs.leg import Leg, Slice
from trainperf.trial.outcome import control_of, floor
from trainperf.trial.ratio import of_two

BESIDE = 3
BESIDE_S = 1.5
LEAST_BESIDE = 2
"""So many slices of changes at most stand between two of the script, if they do not last longer:
neighbours come and go in seconds. Two stand there in any case, each beside one of the script."""
LONG_TURN_S = 3.0
"""What the end of a turn takes once (tracing an evaluation) is little of one that takes so long."""
LESS_FOR_ANOTHER = 0.25
"""What changes the experiment counts so much less: it goes into no patch."""
OF_THE_CONTROL = 0.2
"""What the script against itself tells counts as a change that saves so much of the training."""


class Series:
    """The slices of one kind that the script made, and what they tell of those compared in them.

    `costs` tell what slices hold and take, `over` when a contest is decided. The `control` is the
    script against itself.
    """

    def __init__(self, costs: Costs, control: Contest, over: Rule = enough) -> None:
        self.costs = costs
        self.control = control
        self.over = over
        self.slices: list[Slice] = []
        self.compared_s = 0.0
        self._step_s: dict[Leg, float] = {}  # of a turn of each leg's loop

    @property
    def holds(self) -> Epoch | None:
        """What its slices hold: whole epochs as long as this one; None: steps."""
        return self.costs.epoch

    @property
    def beside_each_other(self) -> int:
        """How many slices of changes stand between two of the script."""
        return max(LEAST_BESIDE, min(BESIDE, int(BESIDE_S / self.costs.slice_s)))

    @property
    def tells_noise(self) -> bool:
        """Whether it is known which gain may be noise, as well as it will be told at least."""
        return self.control.decided or len(self.control.pairs) >= MIN_PAIRS

    @property
    def least(self) -> float:
        """The gain that may be noise; a large one as long as the control does not tell."""
        if not self.tells_noise:
            return FAR
        return floor(control_of(self.control.ratio, parity.control(None, None)))

    # ------------------------------------------------------------------ what it tells

    def waits(self, contest: Contest) -> bool:
        """Whether nothing but the control can decide a contest."""
        if contest.difference is not None or self.tells_noise:
            return False
        return self.over(contest, SMALLEST_GAIN, contest.worth)

    def control_helps(self, own: Sequence[Contest], made_any: bool) -> bool:
        """Whether more pairs of the control may change what is said of any of its `own` contests.

        So until it tells, of what gains or is not decided, or fails: the script itself may fail
        beside itself. Then where a gain is judged, or lies within what may be noise. Where slices
        hold whole epochs, only what waits for it. Until the script has `made_any` slice it is
        measured beside its control.
        """
        if self.control.decided:
            return False
        if self.over is not enough:
            return True
        if self.tells_noise:
            least = 1 + self.least
            return any(
                (contest.twin is not None and not contest.decided)
                or (contest.ratio is not None and 1 + SMALLEST_GAIN < contest.ratio.low <= least)
                for contest in own
            )
        if not made_any:
            return True
        failed = [contest.failure for contest in own if contest.failure]
        if any(self.control.leg.starting or isinstance(one, OutOfMemory) for one in failed):
            return True
        if self.holds is not None:
            return any(contest.near and (contest.decided or self.waits(contest)) for contest in own)
        return any(contest.near or not contest.decided for contest in own)

    def met_itself(self) -> bool:
        """Whether the control is decided."""
        if self.control.failure:
            return True
        if self.over is enough:
            return met_itself(self.control, self.least)
        return self.over(self.control, self.least, self.control.worth)

    def both(self, contest: Contest) -> Ratio | None:
        """The speed-up of a change until now, in all processes that run it."""
        twin, own = self.control.ratio, contest.ratio
        if contest.twin is None or own is None:
            return own
        other = contest.twin.ratio
        if other is None or twin is None:
            return None
        pair = (other, own) if contest.again else (own, other)
        return of_two(*pair, twin.speedup)[0]

    def rate(self, contest: Contest, usual_s: float, waits: Sequence[Contest] = ()) -> float:
        """What a contest may save of the whole training, for each second that it still takes.

        A leg takes `usual_s` to start. The control may save what those save that wait for it.
        """
        candidate = contest.candidate
        saves = OF_THE_CONTROL if candidate is None else candidate.saves(contest.hope)
        saves += sum(other.candidate.saves(other.hope) for other in waits if other.candidate)
        if candidate is not None and candidate.apart:
            saves *= LESS_FOR_ANOTHER
        left_s = pairs_to_come(contest, self.least) * self.costs.comparing(1, 1)
        if contest.leg.starting:
            spent_s = contest.leg.spent_s if contest.leg.alive else 0.0
            # As long again, for all that is known, where it takes longer than usual.
            left_s += max(usual_s - spent_s if spent_s < usual_s else spent_s, 0.5)
        return max(saves, 1e-6) / left_s

    # --------------------------------------------------------------------- its slices

    def slice_of(self, leg: Leg, base: Leg, clock: Clock) -> Slice | None:
        """A slice of a leg, or of `base`, the script as it is; None if the time is over."""
        if clock.over():
            return None
        turn_s, holds = self._step_s.get(base), self.holds
        unchanged_s = self.costs.step_s if turn_s is None else turn_s / base.work_per_step
        step_s = self._step_s.get(leg) or unchanged_s * leg.work_per_step
        # it warmed up in steps: its first slice of turns may be longer than the others
        traces_once = holds is not None and holds.written and holds.seconds < LONG_TURN_S
        for _ in range(SHORT_TRIES):
            piece, took_s = take(leg, step_s, base.slowest_s, clock.over, holds)
            if piece is None:
                return None
            first = leg not in self._step_s
            self._step_s[leg] = took_s
            if first and traces_once:
                continue
            if not piece.retries:
                self.compared_s += piece.seconds
                if leg is base:
                    self.slices.append(piece)
                return piece
        leg.failure = OutOfMemory(SHORT)
        raise leg.failure

"""Slices of one kind, of steps or of whole epochs: none is compared with one of another kind."""

from __future__ import annotations

from trainperf.recording.run import Epoch
from trainperf.trial import parity
from trainperf.trial.budget import Clock, Costs
from trainperf.trial.contest import FAR, MIN_PAIRS, SHORT, SHORT_TRIES, Contest, take
from trainperf.trial.legs.leg import Leg, LegFailed, Slice
from trainperf.trial.outcome import control_of, floor

BESIDE = 3
BESIDE_S = 1.5
LEAST_BESIDE = 2
"""So many slices of changes at most stand between two of the script, if they do not last longer:
neighbours come and go in seconds. Two stand there in any case, each beside one of the script."""
LONG_TURN_S = 3.0
"""What the end of a turn takes once (tracing an evaluation) is little of one that takes so long."""


class Series:
    """The slices of one kind that the script made, and what may be noise among them.

    `costs` tell what slices hold and take. The `control` is the script against itself in them.
    """

    def __init__(self, costs: Costs, control: Contest) -> None:
        self.costs = costs
        self.control = control
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

    def slice_of(self, leg: Leg, base: Leg, clock: Clock) -> Slice | None:
        """A slice of a leg, or of `base`, the script as it is; None if the time is over."""
        if clock.over():
            return None
        step_s = self._step_s.get(leg) or self._unchanged_s(base) * leg.work_per_step
        for _ in range(SHORT_TRIES):
            piece, took_s = take(leg, step_s, base.slowest_s, clock.over, self.holds)
            if piece is None:
                return None
            first = leg not in self._step_s
            self._step_s[leg] = took_s
            if first and self._traces_once:
                continue
            if not piece.retries:
                self.compared_s += piece.seconds
                if leg is base:
                    self.slices.append(piece)
                return piece
        leg.failure, leg.short_of_memory = SHORT, True
        raise LegFailed(SHORT)

    @property
    def _traces_once(self) -> bool:
        """Whether the first slice of a leg may be longer than the others: it warmed up in steps."""
        return self.holds is not None and self.holds.written and self.holds.seconds < LONG_TURN_S

    def _unchanged_s(self, base: Leg) -> float:
        """Seconds for a step's work of the unchanged script."""
        turn_s = self._step_s.get(base)
        return self.costs.step_s if turn_s is None else turn_s / base.work_per_step

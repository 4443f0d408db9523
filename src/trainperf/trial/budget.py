"""The time that trials may take, and would need."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from trainperf.model.run import Epoch
from trainperf.trial.epochs import epochs_of_slice
from trainperf.trial.turns import MIN_PAIRS, SLICE_S, settle_steps, slice_steps

LATE = "was still starting when the time was over"
"""The failure of a leg that only lacked time."""
NO_SLICE = "the time was over before the first slice"
SLICES = 8
"""Slices of each process where they run one after another: two and a half seconds."""
END_S = 1.5
"""Seconds kept to end the processes and write the report."""


@dataclass(frozen=True)
class Costs:
    """The cost of legs, estimated from the observed run; seconds.

    `start_s` is from a start to the end of the warm-up of one leg alone, `step_s` that
    of a step, `epoch_s` that of a whole pass over the data (None if not known), `cores`
    how many legs can start at a time without slowing each other. Where legs do not live
    `together`, a candidate takes three processes, one after another. With an `epoch`,
    each slice holds whole ones. Legs that share a device warm up `in_turn` there, once each has
    passed the first `before_device_s` of its start (imports) beside the others. With room for
    `two`, the script and its control start beside each other, then each candidate by itself.
    Unless it `settles`, slices of slow steps begin with one that counts.
    """

    start_s: float
    step_s: float
    epoch_s: float | None
    cores: float
    together: bool = True
    epoch: Epoch | None = None
    apart: bool = False
    in_turn: bool = False
    before_device_s: float = 0.0
    two: bool = False
    settles: bool = True

    @property
    def at_once(self) -> int:
        """How many legs start beside each other: one more than cores let run, for the imports,
        unless their threads must start `apart` as they spin where they wait."""
        return max(1, int(self.cores)) if self.apart else max(2, int(self.cores) + 1)

    def starting(self, legs: int, epochs: int = 0) -> float:
        """Seconds until so many legs have warmed up, started together where they fit."""
        one = self.start_s + epochs * (self.epoch_s or 0.0)
        if self.two:
            return legs * one
        beside = self.before_device_s if self.in_turn else one
        return beside * max(1.0, legs / max(1.0, self.cores)) + (one - beside) * legs

    def comparing(self, contests: int, pairs: int = MIN_PAIRS) -> float:
        """Seconds for so many contests of so many pairs each."""
        return contests * pairs * 2 * self._slice_s

    def trying(self, candidates: int, epochs: int = 0) -> float:
        """Seconds for so many candidates beside the script and its control."""
        if not self.together:
            return (3 * candidates + 1) * (self.starting(1, epochs) + SLICES * self._slice_s)
        starting = self.starting(candidates + 2, epochs)
        if self.two:
            starting = replace(self, two=False).starting(2) + self.starting(candidates, epochs)
        return starting + self.comparing(candidates + 1)

    @property
    def _slice_s(self) -> float:
        if self.epoch is not None:
            count = epochs_of_slice(self.epoch, self.step_s, SLICE_S)
            return (count * self.epoch.seconds + self.step_s) * 1.1
        steps = slice_steps(self.step_s) + min(1, settle_steps(self.step_s, self.settles))
        return max(SLICE_S, steps * self.step_s) * 1.1


@dataclass(frozen=True)
class Clock:
    """How much time is left. `deadline` is on the clock of `now`, seconds."""

    deadline: float
    interrupted: Callable[[], bool]
    now: Callable[[], float] = time.monotonic

    @property
    def left(self) -> float:
        """Seconds until the trials have to end."""
        return self.deadline - END_S - self.now()

    def over(self) -> bool:
        """Whether the time is over, or the user wants an end."""
        return self.left <= 0 or self.interrupted()

    @property
    def reason(self) -> str:
        """Why there is no more time."""
        return "interrupted" if self.interrupted() else "out of budget"

    def keeping(self, seconds: float) -> Clock:
        """The same clock, ending earlier by `seconds`."""
        return Clock(self.deadline - seconds, self.interrupted, self.now)


def affordable(costs: Costs, left: float, candidates: int, epochs: int = 0) -> int:
    """How many of the candidates, from the first on, can be tried in `left` seconds."""
    for count in range(candidates, 0, -1):
        if costs.trying(count, epochs) <= left:
            return count
    return 0


def budget_needed(
    spent: float, costs: Costs, candidates: int, epochs: int = 0, missed: float = 0.0
) -> float:
    """The budget that lets all candidates be tried, rounded up as reports print it.

    `spent` are the seconds used before them. Half as much again is added, for contests that
    are not decided at once and for the winners together. `missed` is a budget that was used
    up before all were tried: what was estimated with it was too little, so it is more.
    """
    needed = max(spent + 1.5 * costs.trying(candidates, epochs) + END_S, 1.5 * missed)
    each = 10.0 if needed <= 90 else 60.0
    return math.ceil(needed / each) * each

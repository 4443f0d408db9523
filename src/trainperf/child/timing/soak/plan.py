"""The plan of a soak: real steps alone, in slices, for a time."""

from __future__ import annotations

from collections.abc import Callable

from ..budget import Budget
from ..loop import DONE, REAL, Block, Plan

SLICE_S = 1.0


class SoakPlan(Plan):
    """Slices of real steps until `soak_s` is over; epochs end where they are written to.

    `look` is called with the steps so far before each slice, and behind the last one.
    """

    counts_only = True
    soaks = True

    def __init__(
        self,
        clock: Callable[[], float],
        budget: Budget,
        soak_s: float,
        look: Callable[[int], None],
    ) -> None:
        super().__init__(clock, budget, phases=(REAL,))
        self._soak_s = soak_s
        self._look = look
        self._until: float | None = None
        self._slices = self._counted = 0

    @property
    def wants_more(self) -> bool:
        """An input that ran out is opened again by the script alone."""
        return False

    def advance(self) -> None:
        """Go to the next slice, or to the end."""
        self._counted += self.block.steps
        self._look(self._counted)
        if self._until is None:
            self._until = self._clock() + self._soak_s
        if self._clock() >= self._until:
            self.block = Block(DONE, 0, 0.0)
            return
        self.block = Block(REAL, self._slices, SLICE_S, min_steps=self._least(SLICE_S))
        self._slices += 1

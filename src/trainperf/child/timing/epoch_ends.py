"""The ends of epochs that a loop is brought to once all else was measured.

Keras is told up to three times that an epoch is over; what passes until its next one begins is
timed, and what stands on the stacks meanwhile is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..process.stacks import StackSampler
from . import cycles

if TYPE_CHECKING:
    from .driven_loop import DrivenLoop

GAPS = 3
GAPS_S = 3.0
"""So many ends of an epoch are timed; two will do once so many seconds have passed."""


class EpochEnds:
    """Counts the ends; `under_way` says that the loop's epochs end after a step or two."""

    def __init__(self, driver: DrivenLoop) -> None:
        self._driver = driver
        self._stacks: StackSampler | None = None
        self._seen = False
        self._count = 0
        self._from = 0.0
        self.under_way = False

    @property
    def due(self) -> bool:
        """Whether the epoch is to end now."""
        return self.under_way and not self._seen

    def begin(self) -> None:
        """From here on epochs are ended."""
        driver = self._driver
        self.under_way = True
        self._from = driver.clock()
        driver.record.write("phase", p="between", b=0)
        driver.record.flush()
        driver.calls()  # those until here
        self._look()

    def gap(self) -> None:
        """The time between two epochs was taken; the first step of the next one follows."""
        self._seen = self.under_way

    def enough(self, at: float) -> bool:
        """Whether no more ends are needed; asked `at` the end of an epoch's first step."""
        if not self._seen:
            return False
        self._seen = False
        self._count += 1
        timed = self._count >= GAPS or (self._count >= 2 and at - self._from > GAPS_S)
        if timed or not self._driver.can_end():
            return True
        self.keep_stacks()  # the run may be stopped before the next one is over
        self._look()
        return False

    def _look(self) -> None:
        """Keep what stands on the stacks between the epochs from here on."""
        driver = self._driver
        self._stacks = StackSampler(cycles.INTERVAL_S, over=lambda: not driver.between())
        self._stacks.start()

    def keep_stacks(self) -> None:
        """Record what stood on the stacks since they were kept; a second call does nothing."""
        stacks, self._stacks = self._stacks, None
        if stacks is not None:
            counts, calls = stacks.stop(), self._driver.calls()
            self._driver.record.write("aside", total=stacks.samples, stacks=counts, calls=calls)

    def leave(self) -> None:
        """The loop was left: from here on its epochs are as long as they are written."""
        self.keep_stacks()
        self.under_way = self._seen = False

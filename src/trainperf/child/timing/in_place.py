"""Make what could stand for a call of the script on the same input, after some of its calls.

Only where nothing is timed but what stands beside the steps: there it is laid aside, so that no
figure of the run holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .training import Training

AFTER = 8
"""So many calls of a place are made before: a call that comes a few times is not worth it."""
EVERY = 3
"""From then on it is one of so many calls: what slows all for a while is in few of the pairs."""
MOST = 12
"""Pairs of a place."""
MOST_S = 3.0
"""Seconds that our own calls of a place may take together."""
LONGEST_S = 0.2
"""A call that takes longer works on more than a small batch."""


class StandIn(Protocol):
    """Another call that may give the same."""

    def __call__(self) -> Any:
        """Make it."""

    def traces(self) -> int:
        """How often what it runs was traced until now."""

    def undo(self) -> bool:
        """Put back what it drew from the generators of the model; whether it drew anything."""

    def apart(self, result: Any, other: Any) -> float:
        """By how much two results differ, as a share of the largest number; 1.0 is no match."""


Instead = Callable[[], StandIn | None]
"""What could stand for the call that was just made; None where one more may change anything."""


class InPlace:
    """Times stand-ins for calls; `own_s` are the seconds that all of it took."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._process = training.process
        self._calls: dict[Hashable, int] = {}
        self._pairs: dict[Hashable, int] = {}
        self._taken: dict[Hashable, float] = {}
        self.own_s = 0.0

    def called(
        self,
        place: Hashable,
        told: dict[str, Any],
        seconds: float,
        result: Any,
        instead: Instead,
    ) -> None:
        """A call was made that took `seconds`; `told` is what the record says of its place."""
        try:
            driver = self._training.driver
            if not self._due(place, seconds) or driver is None or not driver.beside_steps():
                return
            began = self._process.clock()
            self._process.off = True
            try:
                self._compare(place, told, seconds, result, instead)
            finally:
                self._process.off = False
                own = self._process.clock() - began
                self._taken[place] = self._taken.get(place, 0.0) + own
                self.own_s += own
                driver.lay_aside_of_gap(own)
        except Exception as error:
            self._pairs[place] = MOST
            self._process.failed(f"what could stand for {told['what']}", error)

    def _due(self, place: Hashable, seconds: float) -> bool:
        count = self._calls[place] = self._calls.get(place, 0) + 1
        if count < AFTER or (count - AFTER) % EVERY or seconds > LONGEST_S:
            return False
        if self._pairs.get(place, 0) >= MOST or self._taken.get(place, 0.0) >= MOST_S:
            return False
        return self._training.world is None and self._process.settings.get("leg") is None

    def _compare(
        self, place: Hashable, told: dict[str, Any], seconds: float, result: Any, instead: Instead
    ) -> None:
        stand_in = instead()
        if stand_in is None:
            self._pairs[place] = MOST
            return
        traces, began = stand_in.traces(), self._process.clock()
        other = stand_in()
        taken = self._process.clock() - began
        traced = stand_in.traces() != traces
        if stand_in.undo():
            self._pairs[place] = MOST
            return
        apart = stand_in.apart(result, other)
        if not traced:
            self._pairs[place] = self._pairs.get(place, 0) + 1
        self._process.record.write(
            "in_place", **told, seconds=seconds, instead_s=taken, apart=apart, traced=traced
        )

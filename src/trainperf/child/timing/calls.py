"""Calls of `predict`, `evaluate` and the like: how often, from where, how long.

What could stand for such a call is made on the same input after some of them, only where nothing
is timed but what stands beside the steps: there it is laid aside, so that no figure holds it.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING, Any, Protocol

from ..process import frames
from ..process.process import Attempt, Process, Unseen

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


@dataclass
class _Place:
    """What was compared at a place: its calls, pairs, and the seconds that these took."""

    calls: int = 0
    pairs: int = 0
    own_s: float = 0.0

    def due(self, seconds: float) -> bool:
        """Whether its last call, which took so long, is one to be compared."""
        often = self.calls >= AFTER and (self.calls - AFTER) % EVERY == 0
        return often and seconds <= LONGEST_S and self.pairs < MOST and self.own_s < MOST_S


class InPlace:
    """Times stand-ins for calls; `own_s` are the seconds that all of it took."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._process = training.process
        self._places: defaultdict[Hashable, _Place] = defaultdict(_Place)
        self.own_s = 0.0

    def called(
        self, key: Hashable, told: dict[str, Any], seconds: float, result: Any, instead: Instead
    ) -> None:
        """A call was made that took `seconds`; `told` is what the record says of its place."""
        place, driver = self._places[key], self._training.driver
        place.calls += 1
        if self._training.world is not None or self._process.settings.get("leg") is not None:
            return
        if not place.due(seconds) or driver is None or not driver.beside_steps():
            return
        began = self._process.clock()
        try:
            with Unseen(self._process):
                self._compare(place, told, seconds, result, instead)
        except Exception as error:
            place.pairs = MOST
            self._process.failed(f"what could stand for {told['what']}", error)
        own = self._process.clock() - began
        place.own_s += own
        self.own_s += own
        driver.lay_aside_of_gap(own)

    def _compare(
        self, place: _Place, told: dict[str, Any], seconds: float, result: Any, instead: Instead
    ) -> None:
        stand_in = instead()
        if stand_in is None:
            place.pairs = MOST
            return
        traces, began = stand_in.traces(), self._process.clock()
        other = stand_in()
        taken = self._process.clock() - began
        traced = stand_in.traces() != traces
        if stand_in.undo():
            place.pairs = MOST
            return
        place.pairs += not traced
        apart = stand_in.apart(result, other)
        self._process.record.write(
            "in_place", **told, seconds=seconds, instead_s=taken, apart=apart, traced=traced
        )


# How often a script makes such calls, from where, and how long.

Rows = Callable[[tuple[Any, ...], dict[str, Any]], int | None]
"""How many samples a call is given by its arguments; None where that is not to be seen."""

InsteadOf = Callable[[tuple[Any, ...], dict[str, Any]], StandIn | None]
"""What could stand for a call with its arguments, as `Instead`."""

Place = tuple[str, CodeType | None, int]
"""What was called, and the user's instruction that did."""


class Calls:
    """Counts the outermost calls on the main thread, by what was called and where.

    Where it is known what could stand for one, that goes to `in_place`.
    """

    def __init__(self, process: Process, in_place: InPlace | None = None) -> None:
        self._process = process
        self._in_place = in_place
        self._main = threading.main_thread().ident
        self.inside = False  # a call that is counted
        self._found: dict[Place, list[Any]] = {}

    def counting(
        self,
        what: str,
        rows: Rows = lambda args, kwargs: None,
        instead: InsteadOf | None = None,
    ) -> Callable[[Any], Any]:
        """The maker of the wrapper of a method named `what` in the report."""

        def make(original: Any) -> Any:
            def counted(*args: Any, **kwargs: Any) -> Any:
                if self.passive():
                    return original(*args, **kwargs)
                given = None
                with Attempt(self._process, "the samples of a call"):
                    given = rows(args, kwargs)
                other = None if instead is None else partial(instead, args, kwargs)
                return self.timed(what, given, lambda: original(*args, **kwargs), other)

            return counted

        return make

    def passive(self) -> bool:
        """Whether a call is none of the user's own: trainperf's, within another, on a thread."""
        return self._process.off or self.inside or threading.get_ident() != self._main

    def timed(
        self,
        what: str,
        rows: int | None,
        call: Callable[[], Any],
        instead: Instead | None = None,
    ) -> Any:
        """Make an outermost call and count it."""
        began = self._process.clock()
        self.inside = True
        try:
            result = call()
        finally:
            self.inside = False
            seconds = self._process.clock() - began
            found = self.add(what, seconds, rows)
        if instead is not None and found is not None and self._in_place is not None:
            place, where = found
            self._in_place.called(place, {"what": what, "where": where}, seconds, result, instead)
        return result

    def add(self, what: str, seconds: float, rows: int | None = None) -> tuple[Place, Any] | None:
        """Count a call that stands in the user's innermost frame, with so many samples.

        Return its place, and what the record says of that; None where it could not be counted.
        """
        with Attempt(self._process, f"counting {what}"):
            frame, _ = frames.users_frame()
            key = (what, frame.f_code, frame.f_lasti) if frame else (what, None, 0)
            entry = self._found.get(key)
            if entry is None:
                entry = self._found[key] = [0, 0.0, frames.site(frame), rows]
            entry[0] += 1
            entry[1] += seconds
            entry[3] = None if rows is None or entry[3] is None else max(rows, entry[3])
            return key, entry[2]
        return None

    def take(self) -> list[dict[str, Any]]:
        """The calls that were counted since this was asked last."""
        found, self._found = self._found, {}
        return [
            {"what": what, "n": count, "seconds": seconds, "where": where, "rows": rows}
            for (what, _, _), (count, seconds, where, rows) in found.items()
        ]

"""Calls of `predict`, `evaluate` and the like: how often, from where, how long.

What could stand for such a call is made on the same input after some of them, only where nothing
is timed but what stands beside the steps: there it is laid aside, so that no figure holds it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING, Any

from ..process import frames
from ..process.process import Attempt, Unseen

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


Instead = Callable[[], Any]
"""What could stand for the call that was just made, as `keras.hooks.OnBatch`; None where one more
may change anything."""

Rows = Callable[[tuple[Any, ...], dict[str, Any]], int | None]
"""How many samples a call is given by its arguments; None where that is not to be seen."""

InsteadOf = Callable[[tuple[Any, ...], dict[str, Any]], Any]
"""What could stand for a call with its arguments, as `Instead`."""


@dataclass
class _Place:
    """What is known of the calls of one place; `n`, `seconds` and `rows` since they were taken."""

    what: str
    where: dict[str, Any] | None
    n: int = 0
    seconds: float = 0.0
    rows: int | None = None
    calls: int = 0
    pairs: int = 0
    own_s: float = 0.0

    def add(self, seconds: float, rows: int | None) -> None:
        """One more call, with so many samples."""
        unknown = rows is None or (self.n and self.rows is None)
        self.rows = None if unknown else max(rows or 0, self.rows or 0)
        self.n, self.seconds, self.calls = self.n + 1, self.seconds + seconds, self.calls + 1

    def take(self) -> dict[str, Any]:
        """What was counted since it was taken last."""
        counted = {"what": self.what, "n": self.n, "seconds": self.seconds, "where": self.where}
        counted["rows"] = self.rows
        self.n, self.seconds, self.rows = 0, 0.0, None
        return counted

    def due(self, seconds: float) -> bool:
        """Whether its last call, which took so long, is one to be compared."""
        often = self.calls > AFTER and (self.calls - 1 - AFTER) % EVERY == 0
        return often and seconds <= LONGEST_S and self.pairs < MOST and self.own_s < MOST_S


class Calls:
    """Counts the outermost calls on the main thread, by what was called and where.

    Where it is known what could stand for one, that is made as well now and then; `own_s` are the
    seconds that all of this took.
    """

    def __init__(self, training: Training) -> None:
        self._training = training
        self._process = training.process
        self._main = threading.main_thread().ident
        self.inside = False  # a call that is counted
        self.own_s = 0.0
        self._places: dict[tuple[str, CodeType | None, int], _Place] = {}

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
            place = self.add(what, seconds, rows)
        driver, process = self._training.driver, self._process
        alone = self._training.world is None and process.settings.get("leg") is None
        if instead is None or place is None or driver is None or not alone:
            return result
        if place.due(seconds) and driver.beside_steps():
            began = process.clock()
            try:
                with Unseen(process):
                    self._compare(place, seconds, result, instead)
            except Exception as error:
                place.pairs = MOST
                process.failed(f"what could stand for {what}", error)
            own = process.clock() - began
            place.own_s += own
            self.own_s += own
            driver.lay_aside_of_gap(own)
        return result

    def add(self, what: str, seconds: float, rows: int | None = None) -> _Place | None:
        """Count a call that stands in the user's innermost frame, with so many samples.

        Return its place; None where it could not be counted.
        """
        with Attempt(self._process, f"counting {what}"):
            frame, _ = frames.users_frame()
            key = (what, frame.f_code, frame.f_lasti) if frame else (what, None, 0)
            place = self._places.get(key)
            if place is None:
                place = self._places[key] = _Place(what, frames.site(frame))
            place.add(seconds, rows)
            return place
        return None

    def forget_rows(self, seen: set[tuple[str, str | int]]) -> None:
        """What was counted in such functions and lines of files is not known to be all there is."""
        for place in self._places.values():
            where = place.where or {}
            if seen & {(where.get("file"), where.get(key)) for key in ("function", "line")}:
                place.rows = None

    def take(self) -> list[dict[str, Any]]:
        """The calls that were counted since this was asked last."""
        return [place.take() for place in self._places.values() if place.n]

    def _compare(self, place: _Place, seconds: float, result: Any, instead: Instead) -> None:
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
        told = {"what": place.what, "where": place.where, "seconds": seconds, "instead_s": taken}
        apart = stand_in.apart(result, other)
        self._process.record.write("in_place", **told, apart=apart, traced=traced)

"""How often a script calls `predict`, `evaluate` and the like, from where, and how long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING, Any

from ..process import frames
from ..process.patching import Attempt
from .in_place import InPlace, Instead, StandIn

if TYPE_CHECKING:
    from ..process.process import Process

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
                given = self._rows(rows, args, kwargs)
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

    def _rows(self, rows: Rows, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
        with Attempt(self._process, "the samples of a call"):
            return rows(args, kwargs)
        return None

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

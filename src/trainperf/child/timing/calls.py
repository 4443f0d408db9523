"""How often a script calls `predict`, `evaluate` and the like, from where, and how long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any

from ..process import frames

if TYPE_CHECKING:
    from ..process.process import Process


class Calls:
    """Counts the outermost calls on the main thread, by what was called and the user's line."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._main = threading.main_thread().ident
        self._inside = False
        self._found: dict[tuple[str, CodeType | None, int], list[Any]] = {}

    def counting(self, what: str) -> Callable[[Any], Any]:
        """What makes the wrapper of a method named `what` in the report."""

        def make(original: Any) -> Any:
            def counted(*args: Any, **kwargs: Any) -> Any:
                if self._process.off or self._inside or threading.get_ident() != self._main:
                    return original(*args, **kwargs)
                began = self._process.clock()
                self._inside = True
                try:
                    return original(*args, **kwargs)
                finally:
                    self._inside = False
                    self.add(what, self._process.clock() - began)

            return counted

        return make

    def add(self, what: str, seconds: float) -> None:
        """Count a call that the user's innermost line made."""
        try:
            frame, _ = frames.users_frame()
            key = (what, frame.f_code, frame.f_lineno) if frame else (what, None, 0)
            entry = self._found.get(key)
            if entry is None:
                entry = self._found[key] = [0, 0.0, frames.site(frame)]
            entry[0] += 1
            entry[1] += seconds
        except Exception as error:
            self._process.failed(f"counting {what}", error)

    def take(self) -> list[dict[str, Any]]:
        """What was counted since the last time this was asked."""
        found, self._found = self._found, {}
        return [
            {"what": what, "n": count, "seconds": seconds, "where": where}
            for (what, _, _), (count, seconds, where) in found.items()
        ]

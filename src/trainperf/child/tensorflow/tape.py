"""Which function of the user's holds the gradient tape of a step."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

from ..process import frames


class Tape:
    """The function in which the tape was entered last, with its arguments.

    `wanted` says whether to look for it now; `failed` is told of a fault of ours.
    """

    def __init__(self, failed: Callable[[str, BaseException], None]) -> None:
        self.wanted = True
        self.frame: dict[str, Any] | None = None
        self.arguments: dict[str, Any] | None = None
        self._failed = failed
        self._code: Any = None
        self._frames: list[Any] = []
        self._own_function: bool | None = None

    def entered(self, updates: int) -> None:
        """Remember which function of the user's holds the tape; so many updates came before."""
        try:
            frame, _ = frames.users_frame()
            if frame is None:
                return
            code = frame.f_code
            self._notice_frame(frame, updates)
            self.frame = {**frames.definition(code), "tape": frames.site(frame)}
            self._code = code
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            self.arguments = {name: frame.f_locals.get(name) for name in names}
        except Exception as error:
            self._failed("tape", error)

    def is_in_own_function(self) -> bool:
        """Whether the tape stands in a function that is called anew for each step."""
        return bool(self._own_function)

    def find_function(self) -> Any:
        """The function object that holds the tape, if it is called once per step."""
        if not self._own_function or self._code is None:
            return None
        import gc
        from types import FunctionType, ModuleType

        # What was frozen (`gc.freeze`) is in its module alone; to ask a lazy one would load it.
        modules = [one for one in tuple(sys.modules.values()) if type(one) is ModuleType]
        named = (vars(one).get(self._code.co_name) for one in modules)
        for value in itertools.chain(named, gc.get_referrers(self._code)):
            if isinstance(value, FunctionType) and value.__code__ is self._code:
                return value
        return None

    def _notice_frame(self, frame: Any, updates: int) -> None:
        """Compare the frames of two steps: the same one means that it holds the loop.

        A frame keeps its locals alive, so it is let go as soon as the question is
        answered.
        """
        if self._own_function is not None:
            return
        if not self._frames:
            self._frames += [frame, updates]
        elif updates > self._frames[1]:  # not a second tape of the same step
            self._own_function = frame is not self._frames[0] and frame.f_code.co_name != "<module>"
            self._frames.clear()

"""Which Python numbers change from call to call, where a compiled step is traced again.

Looked at when a function is traced, never in a call that finds its graph.
"""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import Any

from ..process import frames

INT32 = 2**31
"""Integers below this, and not below its negative, are an int32 in TensorFlow."""

OTHER = ("other", None)


class Retraces:
    """Compares the arguments of a call that was traced with those of the one before.

    `called` is the code of the method that is handed a `tf.function` with the arguments
    of a call: its frame has them, so that nothing need be kept of calls without a trace.
    """

    def __init__(self, called: CodeType) -> None:
        self._called = called
        self._seen: dict[int, dict[int | str, tuple[str, Any]]] = {}

    def traced(self) -> dict[str, Any] | None:
        """Say which numbers changed, and where the call stands; called in the call.

        None for the first trace of a function, where no number changed, and where it is
        not the user's source that called.
        """
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code is not self._called:
            frame = frame.f_back
        if frame is None:
            return None
        function = frame.f_locals["function"]
        given = {**dict(enumerate(frame.f_locals["args"])), **frame.f_locals["kwargs"]}
        now = {key: _number(value) for key, value in given.items()}
        before = self._seen.get(id(function), {})
        changed = [key for key in now if _changed(before.get(key, OTHER), now[key])]
        other = {key: OTHER for key, was in before.items() if was == OTHER}
        self._seen[id(function)] = now | other
        caller = frame.f_back
        while caller is not None and frames.is_ours(caller.f_code.co_filename):  # the hook
            caller = caller.f_back
        if not changed or caller is None or not frames.is_users(caller.f_code.co_filename):
            return None
        return {
            "where": frames.site(caller),
            "numbers": [
                {"argument": key, "parameter": _parameter(function, key), "type": now[key][0]}
                for key in changed
            ],
        }


def users_function(function: Any) -> tuple[Any, bool]:
    """Return the Python function in a `tf.function`, and whether it is a bound method."""
    from tensorflow.python.util import tf_decorator

    python = getattr(function, "_python_function", None)
    unwrapped = tf_decorator.unwrap(python)[1]
    bound = hasattr(unwrapped, "__func__")
    return (unwrapped.__func__ if bound else unwrapped), bound


def _number(value: Any) -> tuple[str, Any]:
    """The kind of a number that TensorFlow traces anew for each value, with the value."""
    if type(value) is float:  # NumPy's numbers become tensors
        return "float", value
    if type(value) is int:
        return ("int" if -INT32 <= value < INT32 else "long"), value
    return OTHER


def _changed(before: tuple[str, Any], now: tuple[str, Any]) -> bool:
    return OTHER not in (before, now) and before != now


def _parameter(function: Any, argument: int | str) -> str:
    """The name of an argument's parameter; nothing where it is taken by `*` or `**`."""
    python, bound = users_function(function)
    code = getattr(python, "__code__", None)
    if code is None:
        return ""
    if isinstance(argument, str):
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return argument if argument in names else ""
    place = argument + bound
    return str(code.co_varnames[place]) if place < code.co_argcount else ""

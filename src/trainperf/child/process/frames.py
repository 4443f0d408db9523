"""Where in the user's own source something was called."""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import lru_cache
from itertools import islice
from types import CodeType, FrameType
from typing import Any

_LIBRARIES = tuple(
    {
        os.path.realpath(path) + os.sep
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
        if (path := sysconfig.get_paths().get(name))
    }
    | {os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep}
)


WRAPPERS = ("new_func", "wrapper", "error_handler", "wrapped", "_decorated")
"""Names of decorators' inner functions: what they wrap is what the user called."""


PROGRESS_BARS = ("tqdm", "track")
"""What hands on the numbers it is given, in their order."""


@lru_cache(maxsize=8192)
def is_users(filename: str) -> bool:
    """Whether a code object's file is the user's: no library, not ours, no `<string>`."""
    if not filename or filename.startswith("<") or "__autograph_generated" in filename:
        return False
    if f"{os.sep}site-packages{os.sep}" in filename or f"{os.sep}dist-packages{os.sep}" in filename:
        return False
    return not os.path.realpath(filename).startswith(_LIBRARIES)


def users_frame(skip_self: object = None) -> tuple[FrameType | None, str]:
    """Return the innermost frame of the user's, and the library function it called.

    Constructors of the user's own subclasses are passed over: with `skip_self`, the
    frames whose `self` is that object.
    """
    frame: FrameType | None = sys._getframe(1)
    called = ""
    while frame is not None:
        code = frame.f_code
        if is_users(code.co_filename) and not (
            skip_self is not None and _first_argument(frame) is skip_self
        ):
            return frame, called
        if code.co_name not in WRAPPERS:
            called = code.co_name
        frame = frame.f_back
    return None, called


def _first_argument(frame: FrameType) -> object:
    code = frame.f_code
    if code.co_argcount == 0:
        return None
    return frame.f_locals.get(code.co_varnames[0])


def site(frame: FrameType | None) -> dict[str, Any] | None:
    """Describe the call a frame is in: file, line and extent (columns in characters)."""
    if frame is None:
        return None
    code = frame.f_code
    position = next(islice(code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    line, end_line, col, end_col = position
    described: dict[str, Any] = {
        "file": os.path.abspath(code.co_filename),
        "line": line or frame.f_lineno,
        "function": code.co_name,
    }
    if line and end_line and col is not None and end_col is not None:
        path = described["file"]
        described |= {
            "end_line": end_line,
            "col": _characters(path, line, col),
            "end_col": _characters(path, end_line, end_col),
        }
    return described


@lru_cache(maxsize=64)
def lines_of(path: str) -> list[str]:
    """The lines that run, each with its end: those of `sources.py`, if it has any."""
    import linecache

    return linecache.getlines(path)


def _characters(path: str, line: int, column: int) -> int:
    """Turn a column in bytes of UTF-8, as code objects have it, into characters."""
    lines = lines_of(path)
    if line > len(lines) or lines[line - 1].isascii():
        return column
    return len(lines[line - 1].encode()[:column].decode(errors="replace"))


def here(skip_self: object = None) -> dict[str, Any] | None:
    """Describe the innermost call in the user's source."""
    frame, _ = users_frame(skip_self)
    return site(frame)


def definition(code: CodeType) -> dict[str, Any]:
    """Describe where a function is defined; `line` is that of its `def`."""
    return {
        "file": os.path.abspath(code.co_filename),
        "line": code.co_firstlineno,
        "function": code.co_name,
    }


def another_turn() -> bool:
    """Whether a loop around the innermost one of the user's surely has another turn."""
    return loop_around()[1]


def loop_around(own: bool = True) -> tuple[dict[str, Any] | None, bool]:
    """Where the loop around the training stands, and whether one surely has another turn.

    Reads the source: of each of the user's frames, the loops that hold the current
    line. Only `for NAME in range(…)`, `tqdm(range(…))` and the like, whose end can be
    worked out from the variables at hand, count as sure. With `own`, the innermost loop
    is the training's own, which iterates the data: it is left out.
    """
    import ast

    frame, _ = users_frame()
    first = None
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            for loop in _loops_at(frame):
                if own:
                    own = False
                    continue
                first = first or definition(frame.f_code) | {"line": loop.lineno}
                if isinstance(loop, ast.For) and _has_next(loop, frame):
                    return first, True
        frame = frame.f_back
    return first, False


def every() -> int | None:
    """How many turns of a loop pass from one time to the next that this line is reached.

    Reads it off the innermost `if … % N == 0` around a line of the user's frames, where N can
    be worked out from the variables at hand; None without one.
    """
    import ast

    frame, _ = users_frame()
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            names = {**frame.f_globals, **frame.f_locals}
            for branch in _around(frame, ast.If):
                for node in ast.walk(branch.test):
                    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
                        try:
                            return _value(node.right, names)
                        except (TypeError, ValueError, KeyError, AttributeError):
                            return None
        frame = frame.f_back
    return None


def _loops_at(frame: FrameType) -> list[Any]:
    """The loops of a frame's function that hold its current line, innermost first."""
    import ast

    return _around(frame, (ast.For, ast.While))


def _around(frame: FrameType, kinds: Any) -> list[Any]:
    import ast

    path = os.path.abspath(frame.f_code.co_filename)
    try:
        tree = ast.parse("".join(lines_of(path)))
    except SyntaxError:
        return []
    first, line = frame.f_code.co_firstlineno, frame.f_lineno
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, kinds) and first <= node.lineno <= line <= (node.end_lineno or 0)
    ]
    return sorted(found, key=lambda node: -node.lineno)


def _has_next(loop: Any, frame: FrameType) -> bool:
    import ast

    call = loop.iter
    while isinstance(call, ast.Call) and _called(call) in PROGRESS_BARS and call.args:
        call = call.args[0]
    if not isinstance(call, ast.Call) or not isinstance(loop.target, ast.Name):
        return False
    if _called(call) != "range":
        return False
    names = {**frame.f_globals, **frame.f_locals}
    try:
        bounds = [_value(argument, names) for argument in call.args]
        turns = range(*bounds)
        return int(names[loop.target.id]) + turns.step in turns
    except (TypeError, ValueError, KeyError, AttributeError):
        return False


def _called(call: Any) -> str:
    return str(getattr(call.func, "id", "") or getattr(call.func, "attr", ""))


def _value(node: Any, names: dict[str, Any]) -> int:
    """The integer a plain expression stands for: a literal, a name, an attribute, a sum."""
    import ast

    if isinstance(node, ast.Constant):
        return int(str(node.value))
    if isinstance(node, ast.Name):
        return int(names[node.id])
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return int(getattr(names[node.value.id], node.attr))
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        left, right = _value(node.left, names), _value(node.right, names)
        return left + right if isinstance(node.op, ast.Add) else left - right
    raise TypeError("not a plain expression")

"""Where in the user's own source something was called."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from linecache import getlines
from types import CodeType, FrameType
from typing import Any, NamedTuple

_OWN = os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep
_LIBRARIES = (
    _OWN,
    *(
        os.path.realpath(path) + os.sep
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
        if (path := sysconfig.get_paths().get(name))
    ),
)

WRAPPERS = ("new_func", "wrapper", "error_handler", "wrapped", "_decorated")
"""Names of decorators' inner functions: what they wrap is what the user called."""


@lru_cache(maxsize=8192)
def is_users(filename: str) -> bool:
    """Whether a code object's file is the user's: no library, not ours, no `<string>`."""
    if not filename or filename.startswith("<") or "__autograph_generated" in filename:
        return False
    if f"{os.sep}site-packages{os.sep}" in filename or f"{os.sep}dist-packages{os.sep}" in filename:
        return False
    path = os.path.realpath(filename)
    if path.startswith(_LIBRARIES):
        return False
    folders = (
        os.path.realpath(entry) for entry in sys.path[1:] if entry
    )  # the first is the script's
    return not any(
        path.startswith(folder + os.sep) and _holds_packages(folder) for folder in folders
    )


@lru_cache(maxsize=256)
def _holds_packages(folder: str) -> bool:
    """Whether a folder of `sys.path` is one that packages were installed in: `pip -t`, conda."""
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(folder))
    except OSError:
        return False


def is_ours(filename: str) -> bool:
    """Whether a code object's file is one of trainperf's."""
    return filename.startswith(_OWN)


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
            skip_self is not None and first_argument(frame) is skip_self
        ):
            return frame, called
        if code.co_name not in WRAPPERS:
            called = code.co_name
        frame = frame.f_back
    return None, called


def users_frames() -> Iterator[FrameType]:
    """The frames of the user's that are under way, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back


def first_argument(frame: FrameType) -> object:
    """Return what a frame's function has as its first argument: `self`, in a method."""
    code = frame.f_code
    if code.co_argcount == 0:
        return None
    return frame.f_locals.get(code.co_varnames[0])


def trainer_around() -> tuple[str, Any]:
    """The library whose trainer is among the callers, and its object with the loop; "" without."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        owner = first_argument(frame)
        if frame.f_code.co_name == "_inner_training_loop":
            return "transformers", owner
        if type(owner).__name__ in ("_FitLoop", "FitLoop"):
            return "lightning", owner
        frame = frame.f_back
    return "", None


def line_of(frame: Any) -> int:
    """Return the line that a frame is at; that of its function where the code object has none."""
    return int(frame.f_lineno or frame.f_code.co_firstlineno)


class Place(NamedTuple):
    """Where a frame is, in the names of a frame, which itself would keep objects alive."""

    f_code: CodeType
    f_lasti: int
    f_lineno: int


def site(frame: FrameType | Place | None) -> dict[str, Any] | None:
    """Describe the call a frame is in: file, line and extent (columns in characters)."""
    if frame is None:
        return None
    code = frame.f_code
    position = next(islice(code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    line, end_line, col, end_col = position
    described: dict[str, Any] = {
        "file": os.path.abspath(code.co_filename),
        "line": line or line_of(frame),
        "function": code.co_name,
    }
    if line and end_line and col is not None and end_col is not None:
        path = described["file"]
        described |= {
            "end_line": end_line,
            "col": characters(path, line, col),
            "end_col": characters(path, end_line, end_col),
        }
    return described


@lru_cache(maxsize=64)
def lines_of(path: str) -> list[str]:
    """The lines that run, each with its end: those of `sources.py`, if it has any."""
    return getlines(path)


def characters(path: str, line: int, column: int) -> int:
    """Turn a column in bytes of UTF-8, as code objects and `ast` have it, into characters."""
    lines = lines_of(path)
    if line > len(lines) or lines[line - 1].isascii():
        return column
    return len(lines[line - 1].encode()[:column].decode(errors="replace"))


def here(skip_self: object = None) -> dict[str, Any] | None:
    """Describe the innermost call in the user's source."""
    frame, _ = users_frame(skip_self)
    return site(frame)


def nested(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of the functions, lambdas and comprehensions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)


def definition(code: CodeType) -> dict[str, Any]:
    """Describe where a function is defined; `line` is that of its `def`."""
    return {
        "file": os.path.abspath(code.co_filename),
        "line": code.co_firstlineno,
        "function": code.co_name,
    }

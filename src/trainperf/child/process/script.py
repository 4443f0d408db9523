"""Run a text of ours as the main script, so that it cannot tell.

C code opens and runs the main script, with no hook for its text. But it asks
`sys.path_hooks` first whether the path is a folder or an archive to import
`__main__` from; if so, it calls `runpy._run_module_as_main`, which for this once is
ours. Everything is then as in a native run, with no frame of Python's above the
script's: `sys._getframe().f_back`, `warnings` and tracebacks would show one.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any


class Script:
    """The main script at `path` (its `realpath`), and what returns the bytes to run."""

    def __init__(self, path: str, take: Callable[[str], bytes | None]) -> None:
        self._path = path
        self._take = take
        self._runpy: ModuleType | None = None
        self._given = ""
        self._globals: dict[str, Any] = {}

    def install(self) -> None:
        """Be asked for the main script, before C code opens it."""
        sys.path_hooks.insert(0, self._importer)

    def _importer(self, path: str) -> Any:
        if os.path.realpath(path) != self._path:
            raise ImportError
        sys.path_hooks.remove(self._importer)
        self._given = path
        self._runpy = sys.modules.get("runpy")
        sys.modules["runpy"] = self  # type: ignore[assignment]
        return self

    @property
    def _run_module_as_main(self) -> object:
        """The function that C code gets from `runpy`, to call it with two arguments."""
        if self._runpy is None:
            del sys.modules["runpy"]
        else:
            sys.modules["runpy"] = self._runpy
        sys.path_importer_cache[self._given] = None
        sys.path.remove(self._given)
        if not sys.flags.safe_path:
            sys.path.insert(0, os.path.dirname(self._path))
        self._globals = vars(sys.modules["__main__"])
        self._globals["__file__"] = self._given
        self._globals["__cached__"] = None
        self._globals["__loader__"] = SourceFileLoader("__main__", self._given)
        text: Any = self._take(self._given)
        compiles: Any = compile
        code = map(compiles, [text], [self._given], ["exec"])
        return _Frameless(map(self._ended, map(exec, code, [self._globals])))

    def _ended(self, _: None) -> Callable[..., None]:
        """Take away what C code takes away; return what gets the two arguments."""
        for name in ("__file__", "__cached__"):
            self._globals.pop(name, None)
        return lambda *args: None


class _Frameless:
    """Called, it takes the next of an iterator and calls that, all of it in C.

    Python looks up `__call__` on the type and asks the property for the function to
    call; `methodcaller` makes the property's getter one without a frame.
    """

    def __init__(self, iterator: map[Callable[..., None]]) -> None:
        self._next = iterator.__next__

    __call__ = property(operator.methodcaller("_next"))

"""Run patched texts in place of the user's files, which stay as they are.

Python reads what it runs in four places, and each is told about the patched files:

- modules, packages, `-m` and folders: `SourceFileLoader`, two of whose methods are
  wrapped. Finders, path hooks and the types of loaders stay what they were.
- `runpy.run_path`, and so `__mp_main__` in the children of multiprocessing:
  `io.open_code`, wrapped.
- the main script, which C code opens: see `Script`.
- the lines of tracebacks: `linecache`; and `io.open` for as long as a traceback is
  printed, because before Python 3.13 C code prints it, which reads the file.

A program that itself reads the text of a file and gives it to `exec` gets the user's
text: that is a file it reads like any other.
"""

from __future__ import annotations

import builtins
import io
import operator
import os
import sys
import threading
from collections.abc import Callable
from functools import wraps
from importlib.machinery import SourceFileLoader
from importlib.util import decode_source
from types import ModuleType
from typing import Any


def install(overlay: dict[str, str], ran: Callable[[str], None] = lambda path: None) -> None:
    """From now on, run the bytes of `overlay[path]` wherever Python would run `path`.

    `overlay` maps absolute paths of the user's files to files with the bytes to run. `ran` is
    called with each such path once its bytes are first handed out. Call it before the main script
    is read; raises OSError if its bytes cannot be read, as does an import later.
    """
    if not overlay:
        return
    files = Overlay(overlay, ran)
    if any(path.endswith(".ipynb") for path in overlay):
        _install_in_notebook()
    _hook_loader(files)
    _hook_open_code(files)
    sys.excepthook = _shows_patched_lines(files, sys.excepthook)
    threading.excepthook = _shows_patched_lines(files, threading.excepthook)
    name = sys.argv[0] if sys.argv else ""
    if name not in ("-c", "-m") and files.find(name) is not None:
        Script(os.path.realpath(name), files.take).install()


class Overlay:
    """Which bytes run in place of which file; paths are compared by `realpath`."""

    def __init__(self, files: dict[str, str], ran: Callable[[str], None]) -> None:
        self._files = {os.path.realpath(path): (path, kept) for path, kept in files.items()}
        self._names = {os.path.basename(path) for path in self._files}
        self._ran = ran
        self._handed_out: set[str] = set()

    def find(self, path: object) -> str | None:
        """Name the file with the bytes to run instead of `path`; None: run `path`."""
        # realpath takes 20 µs, and this is asked three times for each module there is:
        # only a link can have another name than the file it leads to.
        if not isinstance(path, str):
            return None
        if os.path.basename(path) not in self._names and not os.path.islink(path):
            return None
        found = self._files.get(os.path.realpath(path))
        return None if found is None else found[1]

    def take(self, path: str) -> bytes | None:
        """Return the bytes to run instead of `path`; None: run `path`."""
        kept = self.find(path)
        if kept is None:
            return None
        with open(kept, "rb") as file:
            text = file.read()
        if kept not in self._handed_out:
            if not self._handed_out:
                _hook_linecache(self)
            self._handed_out.add(kept)
            self._ran(self._files[os.path.realpath(path)][0])
        return text

    def lines(self, path: str) -> list[str] | None:
        """Return the lines that run instead of those of `path`, None if its own run."""
        kept = self.find(path)
        if kept is None:
            return None
        try:
            with open(kept, "rb") as file:
                lines = io.StringIO(decode_source(file.read())).readlines()
        except (OSError, UnicodeDecodeError, SyntaxError):
            return []  # as linecache has it
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        return lines


def _hook_loader(files: Overlay) -> None:
    read, stats = SourceFileLoader.get_data, SourceFileLoader.path_stats

    @wraps(read)
    def get_data(self: SourceFileLoader, path: str) -> bytes:
        text = files.take(path)
        return read(self, path) if text is None else text

    @wraps(stats)
    def path_stats(self: SourceFileLoader, path: str) -> Any:
        if files.find(path) is not None:
            # So that no .pyc is read, which is the user's text's, nor any written.
            raise OSError("a patched file has no time of modification")
        return stats(self, path)

    loader: Any = SourceFileLoader
    loader.get_data, loader.path_stats = get_data, path_stats


def _hook_open_code(files: Overlay) -> None:
    opens = io.open_code

    @wraps(opens)
    def open_code(path: str) -> Any:
        if files.find(path) is None:
            return opens(path)
        text = files.take(path)
        return io.BufferedReader(io.BytesIO(text or b""))

    io.open_code = open_code


def _hook_linecache(files: Overlay) -> None:
    """Have `linecache` read the patched lines; AutoGraph makes it read them again."""
    try:
        # Not at the top: a module of the user's may bear the name of one it imports.
        import linecache

        reads = linecache.updatecache
    except (ImportError, AttributeError):  # while it is being imported itself
        return

    @wraps(reads)
    def updatecache(filename: str, module_globals: Any = None) -> list[str]:
        lines = files.lines(filename)
        if lines is None:
            return reads(filename, module_globals)
        # Without a time of modification, `linecache.checkcache` keeps an entry.
        linecache.cache[filename] = (sum(map(len, lines)), None, lines, filename)
        return lines

    linecache.updatecache = updatecache


def _shows_patched_lines(files: Overlay, hook: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a hook that prints a traceback by Python's own C code."""

    def opened(file: Any, *args: Any, **kwargs: Any) -> Any:
        return open(files.find(file) or file, *args, **kwargs)

    @wraps(hook)
    def show(*args: Any) -> None:
        before, io.open = io.open, opened
        try:
            hook(*args)
        finally:
            io.open = before

    return show


def _install_in_notebook() -> None:
    """Give the code of a notebook `display`, which prints, and `get_ipython`, which says None.

    None is what IPython's own says outside of it. Figures are drawn and not shown.
    """
    given: Any = builtins
    given.display = lambda *objects, **how: print(*objects, sep="\n")
    given.get_ipython = lambda: None
    os.environ["MPLBACKEND"] = "agg"


# Run a text of ours as the main script, so that it cannot tell.
#
# C code opens and runs the main script, with no hook for its text. But it asks `sys.path_hooks`
# first whether the path is a folder or an archive to import `__main__` from; if so, it calls
# `runpy._run_module_as_main`, which for this once is ours. Everything is then as in a native run,
# with no frame of Python's above the script's: `sys._getframe().f_back`, `warnings` and tracebacks
# would show one.


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

"""The standard library for our own modules, where folders of the user's own some of its names.

A `random.py` beside the script is what the script means by `import random`. Our modules are
imported before and after that, and mean the standard library's: they import through a function of
their own, in their `__builtins__`, and what they imported of these names is not left in
`sys.modules`. Nothing of this is set up where no name is owned twice.
"""

from __future__ import annotations

import _thread
import builtins
import os
import sys
from importlib.machinery import PathFinder, SourceFileLoader

TYPE_CHECKING = False
"""The one of `typing`, which may be the user's here."""
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

PREFIX = "_trainperf_child."


class Standard:
    """Imports for our modules: of the names in `taken`, what the standard library holds."""

    def __init__(self, taken: frozenset[str]) -> None:
        self._taken = taken
        self._import = builtins.__import__
        self._lock = _thread.RLock()
        self._standard: dict[str, ModuleType] = {}
        home = os.path.dirname(os.__file__)
        self._path = [entry for entry in sys.path if entry.startswith(home) or entry[-4:] == ".zip"]
        self._builtins = {**vars(builtins), "__import__": self.imported}

    def install(self) -> None:
        """Have our modules that are imported from now on import so, and forget what we did."""
        self._standard = self._swap({})
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(PREFIX):
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path, self._builtins)
        return spec

    def imported(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Import as `__import__` does, the standard library as if the user's folders were not."""
        top = name.partition(".")[0]
        known = top not in self._taken and name in sys.modules
        if level or known or top not in sys.stdlib_module_names:
            return self._import(name, globals, locals, fromlist, level)
        with self._lock:
            theirs, path = self._swap(self._standard), sys.path[:]
            sys.path[:] = self._path
            try:
                return self._import(name, globals, locals, fromlist, level)
            finally:
                sys.path[:] = path
                self._standard = self._swap(theirs)

    def _swap(self, there: dict[str, ModuleType]) -> dict[str, ModuleType]:
        """Put modules of the taken names where they are found; return those that were there."""
        names = [one for one in list(sys.modules) if one.partition(".")[0] in self._taken]
        before = {name: sys.modules.pop(name) for name in names}
        sys.modules.update(there)
        return before


class _Loader(SourceFileLoader):
    """Loads a module of ours with built-in functions of its own."""

    def __init__(self, name: str, path: str, builtin: dict[str, Any]) -> None:
        super().__init__(name, path)
        self._builtin = builtin

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = self._builtin
        super().exec_module(module)

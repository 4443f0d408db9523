"""Call a function right after a module was imported for the first time.

A finder of our own instead of wrapt's: it costs 5 ms less in every interpreter the
child reaches, most of which never import a framework. Nor is it derived from `importlib.abc`,
whose import takes 17 ms more: the interpreter asks for the methods only.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

Hook = Callable[[ModuleType, float], None]
"""Takes the module and the seconds its import took (0 if it was there already)."""


class PostImport:
    """Runs hooks after the modules they are for have been executed.

    `hooks` maps module names to hooks. `failed` is called
    with the module's name and the exception if a hook raises; the import goes on.
    """

    def __init__(self, hooks: dict[str, Hook], failed: Callable[[str, Exception], None]) -> None:
        self._hooks = dict(hooks)
        self._failed = failed
        self._finding: set[str] = set()

    def install(self) -> None:
        """Stand before all other finders, and catch up with what is imported already."""
        sys.meta_path.insert(0, self)
        for name in list(self._hooks):
            if name in sys.modules:
                self.ran(name, sys.modules[name], 0.0)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Answer for the modules with hooks: the spec the others find, loader wrapped."""
        if fullname not in self._hooks or fullname in self._finding:
            return None
        self._finding.add(fullname)
        try:
            spec = find_spec(fullname)
        except (ImportError, ValueError):
            return None
        finally:
            self._finding.discard(fullname)
        if spec is None or spec.loader is None:
            return None
        spec.loader = _Loader(spec.loader, self)  # type: ignore[assignment]
        return spec

    def ran(self, name: str, module: ModuleType, seconds: float) -> None:
        """Run and forget the hook of `name`."""
        hook = self._hooks.pop(name, None)
        if hook is None:
            return
        try:
            hook(module, seconds)
        except Exception as error:
            self._failed(name, error)


class _Loader:
    def __init__(self, inner: Any, finder: PostImport) -> None:
        self._inner = inner
        self._finder = finder

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        module.__loader__ = self._inner
        began = time.monotonic()
        self._inner.exec_module(module)
        self._finder.ran(module.__name__, module, time.monotonic() - began)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

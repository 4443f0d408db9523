"""Classes that are found by being there: one file each, in a folder of their own."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def discovered(package: str, path: Iterable[str], kind: type[T]) -> Iterator[T]:
    """Make one of each class of `kind` that a module of `package` defines, by the files' names.

    `path` is the package's `__path__`. Modules that start with `_` are passed over.
    """
    for info in sorted(pkgutil.iter_modules(path), key=lambda info: info.name):
        if info.name.startswith("_"):
            continue
        module = importlib.import_module(f"{package}.{info.name}")
        for value in vars(module).values():
            if (
                inspect.isclass(value)
                and issubclass(value, kind)
                and value.__module__ == module.__name__
            ):
                yield value()

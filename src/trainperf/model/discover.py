"""Classes that are found by being there: one file each, in folders of their own."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def discovered(package: str, path: Iterable[str], kind: type[T]) -> Iterator[T]:
    """Make one of each class of `kind` that a module of `package` defines, by the files' names.

    `path` is the package's `__path__`; its folders are gone through as well. Modules that start
    with `_` are passed over.
    """
    for name in sorted(modules(package, path), key=lambda name: name.rpartition(".")[2]):
        module = importlib.import_module(name)
        for value in vars(module).values():
            if (
                inspect.isclass(value)
                and issubclass(value, kind)
                and value.__module__ == module.__name__
            ):
                yield value()


def modules(package: str, path: Iterable[str]) -> Iterator[str]:
    """The names of the modules of a package and its folders, but for those that start with `_`."""
    for info in pkgutil.iter_modules(path):
        name = f"{package}.{info.name}"
        if info.ispkg:
            yield from modules(name, importlib.import_module(name).__path__)
        elif not info.name.startswith("_"):
            yield name

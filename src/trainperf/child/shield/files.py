"""Stand-ins for modules of file functions, which read and write by way of a `Scratch`."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from .writers import Scratch, is_remote, text


class StandIn:
    """Stands for a module or object, with some of its attributes replaced."""

    def __init__(self, inner: Any, **attributes: Any) -> None:
        self.__dict__.update(attributes, _inner=inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Files(StandIn):
    """Stands for a module of file functions, such as `tf.io.gfile`, in a module using it.

    Functions that it does not know are those of the module, unchanged.
    """

    def __init__(self, inner: Any, scratch: Scratch) -> None:
        super().__init__(inner, _scratch=scratch)

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._inner, name)
        how = _HOW.get(name)
        return function if how is None else functools.partial(how, self._scratch, function)


def _write(scratch: Scratch, function: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
    return function(scratch.redirect(path), *args, **kwargs)


def _read(scratch: Scratch, function: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
    return function(scratch.reading(path), *args, **kwargs)


def _open(scratch: Scratch, function: Any, path: Any, mode: str = "r", *args: Any) -> Any:
    if any(sign in mode for sign in "wax+"):
        return function(scratch.redirect(path, append="a" in mode or "r" in mode), mode, *args)
    return function(scratch.reading(path), mode, *args)


def _copy(scratch: Scratch, function: Any, source: Any, target: Any, *args: Any) -> Any:
    return function(scratch.reading(source), scratch.redirect(target), *args)


def _remove(scratch: Scratch, function: Any, path: Any) -> Any:
    place = scratch.place(path)
    if place is None:
        return function(path)
    if os.path.lexists(place):
        function(place)
    elif not os.path.lexists(path) and not is_remote(path):
        function(place)  # fails as it must: there is no such file
    scratch.remove(path)
    return None


def _list(scratch: Scratch, function: Any, path: Any) -> Any:
    place = scratch.place(path)
    if place is None or not os.path.isdir(place):
        return function(scratch.reading(path))
    names = set(function(place))
    try:
        for name in function(path):
            if not scratch.is_removed(os.path.join(path, name)):
                names.add(name)
    except Exception:  # only in the scratch folder: each module has its own error for it
        pass
    return sorted(names)


def _match(scratch: Scratch, function: Any, pattern: Any) -> Any:
    if not isinstance(pattern, (str, os.PathLike)):
        return function(pattern)
    folder, name = os.path.split(text(pattern))
    place = scratch.place(folder or ".")
    if place is None:
        return function(pattern)
    found = {path for path in function(pattern) if not scratch.is_removed(path)}
    for path in function(os.path.join(place, name)):
        found.add(os.path.join(folder, os.path.basename(path)))
    return sorted(found)


_HOW: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(
        (
            "atomic_write_string_to_file",
            "create_dir",
            "makedirs",
            "mkdir",
            "recursive_create_dir",
            "write_string_to_file",
        ),
        _write,
    ),
    **dict.fromkeys(
        ("exists", "file_exists", "is_directory", "isdir", "read_file_to_string", "stat"), _read
    ),
    **dict.fromkeys(("File", "FileIO", "GFile"), _open),
    **dict.fromkeys(("delete_file", "delete_recursively", "remove", "rmtree"), _remove),
    **dict.fromkeys(("list_directory", "listdir"), _list),
    **dict.fromkeys(("get_matching_files", "glob"), _match),
    "copy": _copy,
}

"""The functions by which frameworks write and read files, sent to the run's scratch folder.

At the same cost. Calls are redirected where a path is handed on to be written, so that the user's
objects keep the user's paths. Files are only redirected in the modules that write them: the user's
own calls of `tf.io.gfile` stay what they are. Checkpoints of Lightning and of Hugging Face's
Trainer come by way of `torch.save` and safetensors; what they write beside them by plain `open` is
covered by the view alone.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ..process.process import Process
from .rows import FILES, OTHERS, ROWS
from .writers import Scratch, argument, is_remote, text, wrap


class Writing:
    """Redirects what modules write, to one scratch folder for all."""

    def __init__(self, process: Process) -> None:
        settings = process.settings
        self._process = process
        self._scratch = Scratch(settings["folder"], settings.get("guarded", []), process.note)

    def hook(self, module: ModuleType) -> None:
        """Redirect the writers of one module that was just imported. Never raises."""
        try:
            self._redirect(module)
        except Exception as error:
            self._process.note(
                f"what {module.__name__} writes could not be redirected, it went where the script "
                f"says: {type(error).__name__}: {error}"
            )

    def _redirect(self, module: ModuleType) -> None:
        """Redirect what it writes, and what reads that."""
        scratch, name = self._scratch, module.__name__
        for function, place, path, endings in ROWS.get(name, ()):
            owner, _, attribute = function.rpartition(".")
            reading = functools.partial(scratch.reading, endings=endings)
            change = reading if endings else scratch.redirect
            on = getattr(module, owner) if owner else module
            wrap(on, attribute, argument(place, path, change))
        if (files := FILES.get(name)) is not None:
            setattr(module, files, Files(getattr(module, files), scratch))
        if (besides := OTHERS.get(name)) is not None:
            globals()[besides](module, scratch)


def checkpoint(module: Any, scratch: Scratch) -> None:
    def make_save(original: Any) -> Any:
        def save(self: Any, file_prefix: Any, *args: Any, **kwargs: Any) -> Any:
            place = scratch.redirect(file_prefix)
            result = original(self, place, *args, **kwargs)
            if place is file_prefix or not hasattr(result, "numpy"):
                return result
            written = result.numpy().decode()  # the place, or the place and a number
            from tensorflow.python.framework import ops

            with ops.device("/cpu:0"):
                return ops.convert_to_tensor(file_prefix + written.removeprefix(place))

        return save

    wrap(module.TrackableSaver, "save", make_save)


def moving(module: Any, scratch: Scratch) -> None:
    """Checkpoints of PyTorch are written under another name first, and old ones are removed.

    What was redirected is renamed there; from a folder that this run wrote to files are removed
    only for this run.
    """

    def make_rename(original: Any) -> Any:
        def rename(src: Any, dst: Any, **folders: Any) -> Any:
            source = src if folders else scratch.reading(src)
            if source is src:
                return original(src, dst, **folders)
            return original(source, scratch.redirect(dst))

        return rename

    def make_remove(original: Any) -> Any:
        def remove(path: Any, **folder: Any) -> Any:
            place = None if folder else scratch.place(path)
            if place is None or not os.path.isdir(os.path.dirname(place)):
                return original(path, **folder)
            if os.path.lexists(place):
                original(place)
            elif scratch.is_removed(path) or not os.path.lexists(path):
                return original(place)  # fails as it must: there is no such file
            return scratch.remove(path)

        return remove

    for name in ("rename", "replace"):
        wrap(os, name, make_rename)
    for name in ("remove", "unlink"):
        wrap(os, name, make_remove)


class Files:
    """Stands for a module of file functions, such as `tf.io.gfile`, in a module using it.

    Functions that it does not know are those of the module, unchanged.
    """

    def __init__(self, inner: Any, scratch: Scratch) -> None:
        self._inner = inner
        self._scratch = scratch

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
    if os.path.lexists(place) or not (os.path.lexists(path) or is_remote(path)):
        function(place)  # where nothing is, it fails as it must
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
    folder, name = os.path.split(text(pattern))
    place = scratch.place(folder or ".") if name else None
    if place is None:
        return function(pattern)
    found = {path for path in function(pattern) if not scratch.is_removed(path)}
    for path in function(os.path.join(place, name)):
        found.add(os.path.join(folder, os.path.basename(path)))
    return sorted(found)


_HOW: dict[str, Callable[..., Any]] = {
    name: how
    for how, names in (
        (_write, "atomic_write_string_to_file create_dir makedirs mkdir"),
        (_write, "recursive_create_dir write_string_to_file"),
        (_read, "exists file_exists is_directory isdir read_file_to_string stat"),
        (_open, "File FileIO GFile"),
        (_remove, "delete_file delete_recursively remove rmtree"),
        (_list, "list_directory listdir"),
        (_match, "get_matching_files glob"),
        (_copy, "copy"),
    )
    for name in names.split()
}

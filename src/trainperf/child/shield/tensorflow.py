"""Keras's and TensorFlow's writers, sent to the run's scratch folder at the same cost.

Calls are redirected where a path is handed on to be written, so that the user's
objects keep the user's paths. Files are only redirected in the modules that write
them: the user's own calls of `tf.io.gfile` stay what they are.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from .writers import Scratch, argument, is_remote, put, text, wrap

INDEX = ("", ".index")
SAVED_MODEL = ("/saved_model.pb", "/saved_model.pbtxt", "/config.json")


def saving(module: Any, scratch: Scratch) -> None:
    def make_save(original: Any) -> Any:
        redirecting = argument(1, "filepath", scratch.redirect)(original)

        def save_model(*args: Any, **kwargs: Any) -> Any:
            path = kwargs.get("filepath", args[1] if len(args) > 1 else "")
            if str(path).startswith("hf://") and len(args) < 4 and kwargs.get("zipped") is None:
                kwargs["zipped"] = False  # as for every path on the Hugging Face Hub
            return redirecting(*args, **kwargs)

        return save_model

    reading = functools.partial(scratch.reading, endings=INDEX)
    wrap(module, "save_model", make_save)
    wrap(module, "save_weights", argument(1, "filepath", scratch.redirect))
    wrap(module, "load_model", argument(0, "filepath", reading))
    wrap(module, "load_weights", argument(1, "filepath", reading))


def model(module: Any, scratch: Scratch) -> None:
    def make(original: Any) -> Any:
        redirecting = argument(1, "filepath", scratch.redirect)(original)

        def export(self: Any, *args: Any, **kwargs: Any) -> Any:
            kind = kwargs.get("format", args[1] if len(args) > 1 else "tf_saved_model")
            # a SavedModel is redirected further below, after its path was shown
            function = original if kind == "tf_saved_model" else redirecting
            return function(self, *args, **kwargs)

        return export

    wrap(module.Model, "export", make)


def keras_files(module: Any, scratch: Scratch) -> None:
    put(module, "file_utils", Files(module.file_utils, scratch))


def legacy_files(module: Any, scratch: Scratch) -> None:
    tf = module.tf
    gfile = Files(tf.io.gfile, scratch)
    put(module, "tf", StandIn(tf, io=StandIn(tf.io, gfile=gfile)))


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

    reading = functools.partial(scratch.reading, endings=INDEX)
    wrap(module.TrackableSaver, "save", make_save)
    wrap(module.TrackableSaver, "restore", argument(1, "save_path", reading))


def checkpoint_files(module: Any, scratch: Scratch) -> None:
    put(module, "file_io", Files(module.file_io, scratch))


def reader(module: Any, scratch: Scratch) -> None:
    reading = functools.partial(scratch.reading, endings=INDEX)
    wrap(module, "NewCheckpointReader", argument(0, "filepattern", reading))


def save(module: Any, scratch: Scratch) -> None:
    redirecting = argument(1, "export_dir", scratch.redirect)
    wrap(module, "save_and_return_nodes", redirecting)


def load(module: Any, scratch: Scratch) -> None:
    reading = functools.partial(scratch.reading, endings=SAVED_MODEL)
    wrap(module, "load_partial", argument(0, "export_dir", reading))


def summary(module: Any, scratch: Scratch) -> None:
    redirecting = argument(0, "logdir", scratch.redirect)
    wrap(module, "create_file_writer_v2", redirecting)


def profiler(module: Any, scratch: Scratch) -> None:
    wrap(module, "start", argument(0, "logdir", scratch.redirect))


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

"""Keras's and TensorFlow's writers, sent to the run's scratch folder at the same cost.

Calls are redirected where a path is handed on to be written, so that the user's
objects keep the user's paths. Files are only redirected in the modules that write
them: the user's own calls of `tf.io.gfile` stay what they are.
"""

from __future__ import annotations

from typing import Any

from .changes import Changes
from .files import Files, StandIn
from .writers import Scratch
from .writing import argument

INDEX = ("", ".index")
SAVED_MODEL = ("/saved_model.pb", "/saved_model.pbtxt", "/config.json")


def saving(module: Any, scratch: Scratch, changes: Changes) -> None:
    def make_save(original: Any) -> Any:
        redirecting = argument(1, "filepath", scratch.redirect)(original)

        def save_model(*args: Any, **kwargs: Any) -> Any:
            path = kwargs.get("filepath", args[1] if len(args) > 1 else "")
            if str(path).startswith("hf://") and len(args) < 4 and kwargs.get("zipped") is None:
                kwargs["zipped"] = False  # as for every path on the Hugging Face Hub
            return redirecting(*args, **kwargs)

        return save_model

    def reading(path: Any) -> Any:
        return scratch.reading(path, INDEX)

    changes.wrap(module, "save_model", make_save)
    changes.wrap(module, "save_weights", argument(1, "filepath", scratch.redirect))
    changes.wrap(module, "load_model", argument(0, "filepath", reading))
    changes.wrap(module, "load_weights", argument(1, "filepath", reading))


def model(module: Any, scratch: Scratch, changes: Changes) -> None:
    def make(original: Any) -> Any:
        redirecting = argument(1, "filepath", scratch.redirect)(original)

        def export(self: Any, *args: Any, **kwargs: Any) -> Any:
            kind = kwargs.get("format", args[1] if len(args) > 1 else "tf_saved_model")
            # a SavedModel is redirected further below, after its path was shown
            function = original if kind == "tf_saved_model" else redirecting
            return function(self, *args, **kwargs)

        return export

    changes.wrap(module.Model, "export", make)


def keras_files(module: Any, scratch: Scratch, changes: Changes) -> None:
    changes.put(module, "file_utils", Files(module.file_utils, scratch))


def legacy_files(module: Any, scratch: Scratch, changes: Changes) -> None:
    tf = module.tf
    gfile = Files(tf.io.gfile, scratch)
    changes.put(module, "tf", StandIn(tf, io=StandIn(tf.io, gfile=gfile)))


def checkpoint(module: Any, scratch: Scratch, changes: Changes) -> None:
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

    def reading(path: Any) -> Any:
        return scratch.reading(path, INDEX)

    changes.wrap(module.TrackableSaver, "save", make_save)
    changes.wrap(module.TrackableSaver, "restore", argument(1, "save_path", reading))


def checkpoint_files(module: Any, scratch: Scratch, changes: Changes) -> None:
    changes.put(module, "file_io", Files(module.file_io, scratch))


def reader(module: Any, scratch: Scratch, changes: Changes) -> None:
    def reading(path: Any) -> Any:
        return scratch.reading(path, INDEX)

    changes.wrap(module, "NewCheckpointReader", argument(0, "filepattern", reading))


def save(module: Any, scratch: Scratch, changes: Changes) -> None:
    redirecting = argument(1, "export_dir", scratch.redirect)
    changes.wrap(module, "save_and_return_nodes", redirecting)


def load(module: Any, scratch: Scratch, changes: Changes) -> None:
    def reading(path: Any) -> Any:
        return scratch.reading(path, SAVED_MODEL)

    changes.wrap(module, "load_partial", argument(0, "export_dir", reading))


def summary(module: Any, scratch: Scratch, changes: Changes) -> None:
    redirecting = argument(0, "logdir", scratch.redirect)
    changes.wrap(module, "create_file_writer_v2", redirecting)


def profiler(module: Any, scratch: Scratch, changes: Changes) -> None:
    changes.wrap(module, "start", argument(0, "logdir", scratch.redirect))

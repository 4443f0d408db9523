"""What Keras and TensorFlow write goes to the run's scratch folder, at the same cost.

Calls are redirected where a path is handed on to be written, so that the user's
objects keep the user's paths. Files are only redirected in the modules that write
them: the user's own calls of `tf.io.gfile` stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from .changes import Changes
from .files import Files, Over
from .writers import Scratch
from .writing_modules import WRITING

INDEX = ("", ".index")
SAVED_MODEL = ("/saved_model.pb", "/saved_model.pbtxt", "/config.json")


def hook(observer: Any, module: ModuleType) -> None:
    """Redirect the writers of one module that was just imported. Never raises."""
    try:
        globals()[WRITING[module.__name__]](module, *_shared(observer))
    except Exception as error:
        observer.note(
            f"what {module.__name__} writes could not be redirected, it went where the script "
            f"says: {type(error).__name__}: {error}"
        )


def undo(observer: Any) -> None:
    """Let everything write where it is told to again."""
    _shared(observer)[1].undo()


def _shared(observer: Any) -> tuple[Scratch, Changes]:
    found: tuple[Scratch, Changes] | None = observer.facts.get("writers")
    if found is None:
        settings = observer.settings
        scratch = Scratch(settings["folder"], settings.get("guarded", []), observer.note)
        found = observer.facts["writers"] = (scratch, Changes())
    return found


def _argument(number: int, name: str, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Make a wrapper that changes one argument, by position or by name."""

    def make(original: Any) -> Any:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if name in kwargs:
                kwargs[name] = change(kwargs[name])
            elif len(args) > number:
                args = (*args[:number], change(args[number]), *args[number + 1 :])
            return original(*args, **kwargs)

        return wrapper

    return make


def saving(module: Any, scratch: Scratch, changes: Changes) -> None:
    def make_save(original: Any) -> Any:
        redirecting = _argument(1, "filepath", scratch.redirect)(original)

        def save_model(*args: Any, **kwargs: Any) -> Any:
            path = kwargs.get("filepath", args[1] if len(args) > 1 else "")
            if str(path).startswith("hf://") and len(args) < 4 and kwargs.get("zipped") is None:
                kwargs["zipped"] = False  # as for every path on the Hugging Face Hub
            return redirecting(*args, **kwargs)

        return save_model

    def reading(path: Any) -> Any:
        return scratch.reading(path, INDEX)

    changes.wrap(module, "save_model", make_save)
    changes.wrap(module, "save_weights", _argument(1, "filepath", scratch.redirect))
    changes.wrap(module, "load_model", _argument(0, "filepath", reading))
    changes.wrap(module, "load_weights", _argument(1, "filepath", reading))


def model(module: Any, scratch: Scratch, changes: Changes) -> None:
    def make(original: Any) -> Any:
        redirecting = _argument(1, "filepath", scratch.redirect)(original)

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
    changes.put(module, "tf", Over(tf, io=Over(tf.io, gfile=gfile)))


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
    changes.wrap(module.TrackableSaver, "restore", _argument(1, "save_path", reading))


def checkpoint_files(module: Any, scratch: Scratch, changes: Changes) -> None:
    changes.put(module, "file_io", Files(module.file_io, scratch))


def reader(module: Any, scratch: Scratch, changes: Changes) -> None:
    def reading(path: Any) -> Any:
        return scratch.reading(path, INDEX)

    changes.wrap(module, "NewCheckpointReader", _argument(0, "filepattern", reading))


def save(module: Any, scratch: Scratch, changes: Changes) -> None:
    redirecting = _argument(1, "export_dir", scratch.redirect)
    changes.wrap(module, "save_and_return_nodes", redirecting)


def load(module: Any, scratch: Scratch, changes: Changes) -> None:
    def reading(path: Any) -> Any:
        return scratch.reading(path, SAVED_MODEL)

    changes.wrap(module, "load_partial", _argument(0, "export_dir", reading))


def summary(module: Any, scratch: Scratch, changes: Changes) -> None:
    redirecting = _argument(0, "logdir", scratch.redirect)
    changes.wrap(module, "create_file_writer_v2", redirecting)


def profiler(module: Any, scratch: Scratch, changes: Changes) -> None:
    changes.wrap(module, "start", _argument(0, "logdir", scratch.redirect))

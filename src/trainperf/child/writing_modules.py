"""The modules whose writers are redirected, apart from what does it: read at every start."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from .importing import Hook

WRITING = {
    "keras.src.callbacks.backup_and_restore": "keras_files",
    "keras.src.callbacks.csv_logger": "keras_files",
    "keras.src.callbacks.model_checkpoint": "keras_files",
    "keras.src.callbacks.tensorboard": "keras_files",
    "keras.src.models.model": "model",
    "keras.src.saving.saving_api": "saving",
    "tensorflow.python.checkpoint.checkpoint": "checkpoint",
    "tensorflow.python.checkpoint.checkpoint_management": "checkpoint_files",
    "tensorflow.python.ops.summary_ops_v2": "summary",
    "tensorflow.python.profiler.profiler_v2": "profiler",
    "tensorflow.python.saved_model.load": "load",
    "tensorflow.python.saved_model.save": "save",
    "tensorflow.python.training.py_checkpoint_reader": "reader",
    "tf_keras.src.callbacks": "legacy_files",
    "tf_keras.src.distribute.worker_training_state": "legacy_files",
    "tf_keras.src.saving.saving_api": "saving",
}
"""By name: the function of `tf_writers` that redirects what the module writes."""


def add_hooks(observer: Any, hooks: dict[str, Hook]) -> None:
    """Add to `hooks` those that redirect writers; what is there already follows them."""

    def make(first: Hook | None) -> Hook:
        def hook(module: ModuleType, seconds: float) -> None:
            from . import tf_writers

            tf_writers.hook(observer, module)
            if first is not None:
                first(module, seconds)

        return hook

    for name in WRITING:
        hooks[name] = make(hooks.get(name))

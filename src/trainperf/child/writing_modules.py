"""The modules whose writers are redirected, apart from what does it: read at every start."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from .importing import Hook

WRITING = {
    "keras.src.callbacks.backup_and_restore": "tf_writers.keras_files",
    "keras.src.callbacks.csv_logger": "tf_writers.keras_files",
    "keras.src.callbacks.model_checkpoint": "tf_writers.keras_files",
    "keras.src.callbacks.tensorboard": "tf_writers.keras_files",
    "keras.src.models.model": "tf_writers.model",
    "keras.src.saving.saving_api": "tf_writers.saving",
    "safetensors.torch": "torch_writers.safetensors",
    "tensorboardX.writer": "torch_writers.summary",
    "tensorflow.python.checkpoint.checkpoint": "tf_writers.checkpoint",
    "tensorflow.python.checkpoint.checkpoint_management": "tf_writers.checkpoint_files",
    "tensorflow.python.ops.summary_ops_v2": "tf_writers.summary",
    "tensorflow.python.profiler.profiler_v2": "tf_writers.profiler",
    "tensorflow.python.saved_model.load": "tf_writers.load",
    "tensorflow.python.saved_model.save": "tf_writers.save",
    "tensorflow.python.training.py_checkpoint_reader": "tf_writers.reader",
    "tf_keras.src.callbacks": "tf_writers.legacy_files",
    "tf_keras.src.distribute.worker_training_state": "tf_writers.legacy_files",
    "tf_keras.src.saving.saving_api": "tf_writers.saving",
    "torch.serialization": "torch_writers.serialization",
    "torch.utils.tensorboard.writer": "torch_writers.summary",
}
"""By name: the file and its function that redirect what the module writes."""


def add_hooks(observer: Any, hooks: dict[str, Hook]) -> None:
    """Add to `hooks` those that redirect writers; what is there already follows them."""

    def make(first: Hook | None) -> Hook:
        def hook(module: ModuleType, seconds: float) -> None:
            from . import writing

            writing.hook(observer, module)
            if first is not None:
                first(module, seconds)

        return hook

    for name in WRITING:
        hooks[name] = make(hooks.get(name))

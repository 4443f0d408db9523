"""The modules whose writers are redirected, apart from what does it: read at every start."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..process.importing import Hook

WRITING = {
    "keras.src.callbacks.backup_and_restore": "tensorflow.keras_files",
    "keras.src.callbacks.csv_logger": "tensorflow.keras_files",
    "keras.src.callbacks.model_checkpoint": "tensorflow.keras_files",
    "keras.src.callbacks.tensorboard": "tensorflow.keras_files",
    "keras.src.models.model": "tensorflow.model",
    "keras.src.saving.saving_api": "tensorflow.saving",
    "safetensors.torch": "torch.safetensors",
    "tensorboardX.writer": "torch.summary",
    "tensorflow.python.checkpoint.checkpoint": "tensorflow.checkpoint",
    "tensorflow.python.checkpoint.checkpoint_management": "tensorflow.checkpoint_files",
    "tensorflow.python.ops.summary_ops_v2": "tensorflow.summary",
    "tensorflow.python.profiler.profiler_v2": "tensorflow.profiler",
    "tensorflow.python.saved_model.load": "tensorflow.load",
    "tensorflow.python.saved_model.save": "tensorflow.save",
    "tensorflow.python.training.py_checkpoint_reader": "tensorflow.reader",
    "tf_keras.src.callbacks": "tensorflow.legacy_files",
    "tf_keras.src.distribute.worker_training_state": "tensorflow.legacy_files",
    "tf_keras.src.saving.saving_api": "tensorflow.saving",
    "torch.serialization": "torch.serialization",
    "torch.utils.tensorboard.writer": "torch.summary",
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

"""The modules whose writers are redirected, apart from what does it: read at every start."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from ..process.importing import Hook

if TYPE_CHECKING:
    from ..process.process import Process
    from .writing import Writing

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


class Shield:
    """Adds the hooks that redirect writers; what redirects is made with the first of them."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._writing: Writing | None = None

    def add_hooks(self, hooks: dict[str, Hook]) -> None:
        """Add to `hooks` those that redirect writers; what is there already follows them."""
        for name in WRITING:
            hooks[name] = self._hook(hooks.get(name))

    def _hook(self, first: Hook | None) -> Hook:
        def hook(module: ModuleType, seconds: float) -> None:
            try:
                self._redirect(module)
            finally:
                if first is not None:
                    first(module, seconds)

        return hook

    def _redirect(self, module: ModuleType) -> None:
        from .writing import Writing

        if self._writing is None:
            self._writing = Writing(self._process)
        self._writing.hook(module, WRITING[module.__name__])

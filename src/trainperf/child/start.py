"""Begin to observe a process: read what is asked for, and name the modules to hook.

What does the hooking is imported when a module comes that it hooks.
"""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .keras import modules as keras
from .process.importing import Hook, PostImport
from .process.process import Process
from .shield.modules import Shield
from .tensorflow import modules as tensorflow
from .timing.training import Training
from .torch import modules as torch

if TYPE_CHECKING:
    from .keras.legacy import Legacy
    from .reads.s3 import Counts
    from .tensorflow.loops import TensorFlowLoops
    from .torch.loops import TorchLoops


S3 = ("aiobotocore.client", "botocore.client")
TABLES = "datasets.arrow_dataset"
"""The modules of S3's clients and of `datasets` that are hooked."""


def start(run_file: str) -> None:
    """Read what is asked for and set the hooks; called once per interpreter."""
    with open(run_file, encoding="utf-8") as file:
        settings = json.load(file)
    process = Process(settings)
    process.record.write(
        "hello",
        pid=os.getpid(),
        ppid=os.getppid(),
        argv=list(sys.orig_argv),
        python=sys.version.split()[0],
    )
    process.record.flush()
    if settings.get("sources"):
        from .process import sources

        sources.install(settings["sources"], process.patched)
    if settings.get("guarded") and os.geteuid() != 0:
        from .shield import changes

        changes.mend_renames(settings["guarded"], changes.Changes())
    if settings.get("seed") is not None:
        from .process import seeding

        seeding.install(settings["seed"], process)
    hooks: dict[str, Hook] = {}
    if settings.get("plain"):
        Shield(process).add_hooks(hooks)
    else:
        process.watch_for_end()
        hooks = Frameworks(Training(process)).hooks()
        hooks["tempfile"] = process.temporary.hook
    PostImport(hooks, lambda name, error: process.failed(f"hook {name}", error)).install()


class Frameworks:
    """The hooks of a process, and what those of one framework share, made with the first."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._process = training.process
        self.tensorflow = cache(self._tensorflow)
        self.torch = cache(self._torch)
        self._legacy = cache(self._keras_2)
        self._counts = cache(self._s3_counts)

    def hooks(self) -> dict[str, Hook]:
        """Return the hooks by the names of their modules."""
        hooks: dict[str, Hook] = {
            **dict.fromkeys(tensorflow.HOOKS, self._hook_tensorflow),
            **dict.fromkeys(keras.HOOKS, self._hook_keras),
            **dict.fromkeys(keras.LEGACY, self._hook_keras_2),
            **dict.fromkeys(torch.HOOKS, self._hook_torch),
            **dict.fromkeys(S3, self._hook_s3),
            TABLES: self._hook_tables,
            "jax": self._hook_jax,
        }
        Shield(self._process).add_hooks(hooks)
        return hooks

    def _hook_tensorflow(self, module: ModuleType, seconds: float) -> None:
        self._imported(module, seconds)
        set_hook(self.tensorflow(), module, "tensorflow", tensorflow.HOOKS)

    def _hook_keras(self, module: ModuleType, seconds: float) -> None:
        from .tensorflow.models import backend

        name = backend()
        if name in ("tensorflow", "torch"):
            loops: Any = self.torch() if name == "torch" else self.tensorflow()
            set_hook(loops, module, "keras", keras.HOOKS)
        else:
            self._not_observed(f"Keras on {name}")

    def _hook_keras_2(self, module: ModuleType, seconds: float) -> None:
        self._legacy().hook(module)

    def _hook_torch(self, module: ModuleType, seconds: float) -> None:
        self._imported(module, seconds)
        set_hook(self.torch(), module, "torch", torch.HOOKS)

    def _hook_s3(self, module: ModuleType, seconds: float) -> None:
        from .reads import s3

        if self._process.settings.get("leg") is None:
            s3.hook(self._counts(), module)

    def _hook_tables(self, module: ModuleType, seconds: float) -> None:
        from .reads import tables

        if self._process.settings.get("leg") is None:
            tables.hook(self._process, module)

    def _hook_jax(self, module: ModuleType, seconds: float) -> None:
        self._not_observed("JAX", getattr(module, "__version__", ""))

    def _not_observed(self, name: str, version: str = "") -> None:
        self._process.record.write("unsupported", name=name, version=version)
        self._process.record.flush()

    def _imported(self, module: ModuleType, seconds: float) -> None:
        """A module of a framework was imported: this process may train."""
        self._training.framework_imported()
        name = module.__name__
        if name in ("tensorflow", "torch"):
            version = str(getattr(module, "__version__", ""))
            self._process.record.write("import", name=name, version=version, seconds=seconds)

    # ------------------------------------------------------------------ made once

    def _tensorflow(self) -> TensorFlowLoops:
        from .tensorflow.loops import TensorFlowLoops

        return TensorFlowLoops(self._training)

    def _torch(self) -> TorchLoops:
        from .torch.loops import TorchLoops

        return TorchLoops(self._training)

    def _keras_2(self) -> Legacy:
        from .keras.legacy import Legacy

        return Legacy(self.tensorflow())

    def _s3_counts(self) -> Counts:
        from .reads import s3

        return s3.counts(self._process)


def set_hook(loops: Any, module: ModuleType, package: str, hooks: dict[str, str]) -> None:
    """Set the hooks of a framework's module that was just imported, as its table names them."""
    part, _, function = hooks[module.__name__].rpartition(".")
    getattr(import_module(f".{package}.{part}", __package__), function)(loops, module)
    loops.process.record.write("hook", name=module.__name__)

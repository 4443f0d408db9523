"""Begin to observe a process: read what is asked for, and name the modules to hook.

What does the hooking is imported when a module comes that it hooks.
"""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .process.importing import Hook, PostImport
from .process.process import Process
from .shield.modules import Shield
from .timing.training import Training

if TYPE_CHECKING:
    from .keras.legacy import Legacy
    from .reads.s3_counts import Counts
    from .tensorflow.loops import TensorFlowLoops
    from .torch.loops import TorchLoops

TENSORFLOW = (
    "tensorflow",
    "tensorflow.python.client.session",
    "tensorflow.python.data.ops.dataset_ops",
    "tensorflow.python.data.ops.iterator_ops",
    "tensorflow.python.distribute.collective_all_reduce_strategy",
    "tensorflow.python.distribute.distribute_lib",
    "tensorflow.python.distribute.input_lib",
    "tensorflow.python.distribute.mirrored_strategy",
    "tensorflow.python.eager.backprop",
    "tensorflow.python.eager.polymorphic_function.function_context",
    "tensorflow.python.eager.polymorphic_function.polymorphic_function",
    "tensorflow.python.framework.func_graph",
    "tensorflow.python.ops.resource_variable_ops",
)
KERAS = (
    "keras.src.backend.tensorflow.trainer",
    "keras.src.callbacks.callback",
    "keras.src.callbacks.callback_list",
    "keras.src.layers.rnn.rnn",
    "keras.src.optimizers.base_optimizer",
    "keras.src.trainers.data_adapters.py_dataset_adapter",
    "keras.src.trainers.trainer",
)
KERAS_2 = (
    "tf_keras.src.callbacks",
    "tf_keras.src.engine.data_adapter",
    "tf_keras.src.engine.training",
    "tf_keras.src.layers.rnn.base_rnn",
    "tf_keras.src.optimizers.legacy.optimizer_v2",
    "tf_keras.src.optimizers.optimizer",
)
TORCH = (
    "torch",
    "torch._dynamo.trace_rules",
    "torch.amp.grad_scaler",
    "torch.distributed.distributed_c10d",
    "torch.distributed.fsdp._fully_shard._fully_shard",
    "torch.distributed.fsdp.fully_sharded_data_parallel",
    "torch.nn.modules.module",
    "torch.nn.parallel.data_parallel",
    "torch.nn.parallel.distributed",
    "torch.optim.optimizer",
    "torch.serialization",
    "torch.utils.checkpoint",
    "torch.utils.data._utils.worker",
    "torch.utils.data.dataloader",
)
S3 = ("aiobotocore.client", "botocore.client", "s3torchconnector._s3client._s3client")


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
    process.watch_for_end()
    hooks = Frameworks(Training(process)).hooks()
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
            **dict.fromkeys(TENSORFLOW, self._hook_tensorflow),
            **dict.fromkeys(KERAS, self._hook_keras),
            **dict.fromkeys(KERAS_2, self._hook_keras_2),
            **dict.fromkeys(TORCH, self._hook_torch),
            **dict.fromkeys(S3, self._hook_s3),
            "jax": self._hook_jax,
        }
        Shield(self._process).add_hooks(hooks)
        return hooks

    def _hook_tensorflow(self, module: ModuleType, seconds: float) -> None:
        from .tensorflow import hooks

        self._training.framework_imported()
        hooks.hook(self.tensorflow(), module, seconds)

    def _hook_keras(self, module: ModuleType, seconds: float) -> None:
        from .keras import hooks

        loops: Any = self.torch() if hooks.backend() == "torch" else self.tensorflow()
        hooks.hook(loops, module)

    def _hook_keras_2(self, module: ModuleType, seconds: float) -> None:
        self._legacy().hook(module)

    def _hook_torch(self, module: ModuleType, seconds: float) -> None:
        from .torch import hooks

        self._training.framework_imported()
        hooks.hook(self.torch(), module, seconds)

    def _hook_s3(self, module: ModuleType, seconds: float) -> None:
        from .reads import s3

        if self._process.settings.get("leg") is None:
            s3.hook(self._counts(), module)

    def _hook_jax(self, module: ModuleType, seconds: float) -> None:
        version = getattr(module, "__version__", "")
        self._process.record.write("unsupported", name="JAX", version=version)

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

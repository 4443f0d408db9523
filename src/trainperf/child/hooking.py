"""Name the modules to hook; what does the hooking is imported when one comes."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from .process.importing import Hook
from .shield.modules import add_hooks

if TYPE_CHECKING:
    from .process.observer import Observer


def hooks_of(observer: Observer) -> dict[str, Hook]:
    """Return the hooks by the names of their modules."""

    def tensorflow(module: ModuleType, seconds: float) -> None:
        from .tensorflow import hooks as part

        observer.framework_imported()
        part.hook(observer, module, seconds)

    def keras(module: ModuleType, seconds: float) -> None:
        from .keras import hooks as part

        part.hook(observer, module)

    def tf_keras(module: ModuleType, seconds: float) -> None:
        from .keras import legacy as part

        part.hook(observer, module)

    def torch(module: ModuleType, seconds: float) -> None:
        from .torch import hooks as part

        observer.framework_imported()
        part.hook(observer, module, seconds)

    def jax(module: ModuleType, seconds: float) -> None:
        version = getattr(module, "__version__", "")
        observer.record.write("unsupported", name="JAX", version=version)

    def s3(module: ModuleType, seconds: float) -> None:
        from .reads import s3 as part

        part.hook(observer, module, seconds)

    hooks: dict[str, Hook] = dict.fromkeys(
        (
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
        ),
        tensorflow,
    )
    hooks |= dict.fromkeys(
        (
            "keras.src.backend.tensorflow.trainer",
            "keras.src.callbacks.callback",
            "keras.src.callbacks.callback_list",
            "keras.src.layers.rnn.rnn",
            "keras.src.optimizers.base_optimizer",
            "keras.src.trainers.data_adapters.py_dataset_adapter",
            "keras.src.trainers.trainer",
        ),
        keras,
    )
    hooks |= dict.fromkeys(
        (
            "tf_keras.src.callbacks",
            "tf_keras.src.engine.data_adapter",
            "tf_keras.src.engine.training",
            "tf_keras.src.layers.rnn.base_rnn",
            "tf_keras.src.optimizers.legacy.optimizer_v2",
            "tf_keras.src.optimizers.optimizer",
        ),
        tf_keras,
    )
    hooks |= dict.fromkeys(
        (
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
        ),
        torch,
    )
    hooks |= dict.fromkeys(
        ("aiobotocore.client", "botocore.client", "s3torchconnector._s3client._s3client"), s3
    )
    hooks["jax"] = jax
    add_hooks(observer, hooks)
    return hooks

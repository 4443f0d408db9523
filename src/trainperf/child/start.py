"""Begin to observe a process: read what is asked for, and name the modules to hook.

What does the hooking is imported when a module comes that it hooks.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache, cached_property, partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .process.process import Process, follow_temporary
from .shield.rows import MODULES
from .timing.training import Training

if TYPE_CHECKING:
    from .reads.s3 import Counts
    from .shield.redirected import Writing

TENSORFLOW = {
    "tensorflow": "hooks.imported",
    "tensorflow.python.client.session": "hooks.watch_sessions",
    "tensorflow.python.data.ops.dataset_ops": "hooks.watch_datasets",
    "tensorflow.python.data.ops.iterator_ops": "hooks.watch_iterators",
    "tensorflow.python.distribute.collective_all_reduce_strategy": "strategies.watch_jobs",
    "tensorflow.python.distribute.distribute_lib": "strategies.watch_strategies",
    "tensorflow.python.distribute.input_lib": "hooks.watch_distributed",
    "tensorflow.python.distribute.mirrored_strategy": "strategies.watch_mirrored",
    "tensorflow.python.eager.backprop": "hooks.watch_tapes",
    "tensorflow.python.eager.context": "hooks.watch_context",
    "tensorflow.python.eager.polymorphic_function.function_context": "strategies.key_functions",
    "tensorflow.python.eager.polymorphic_function.polymorphic_function": "hooks.watch_functions",
    "tensorflow.python.framework.func_graph": "hooks.watch_tracing",
    "tensorflow.python.ops.resource_variable_ops": "hooks.watch_variables",
    "tensorflow.python.ops.script_ops": "hooks.watch_python",
}
KERAS = {
    "keras.src.backend.tensorflow.core": "hooks.watch_scopes",
    "keras.src.backend.tensorflow.trainer": "hooks.watch_trainer",
    "keras.src.backend.torch.trainer": "hooks.watch_torch_trainer",
    "keras.src.callbacks.callback": "hooks.remember_built:Callback",
    "keras.src.callbacks.callback_list": "hooks.watch_callbacks",
    "keras.src.layers.layer": "hooks.remember_built:Layer",
    "keras.src.models.model": "hooks.watch_calls",
    "keras.src.optimizers.base_optimizer": "hooks.watch_apply:BaseOptimizer",
    "keras.src.trainers.data_adapters.py_dataset_adapter": "hooks.remember_built:PyDataset",
    "keras.src.trainers.trainer": "hooks.remember_compile:Trainer",
    "tf_keras.src.engine.training": "hooks.watch_legacy:Model",
}
TORCH = {
    "accelerate.accelerator": "trainers.watch",
    "lightning.pytorch.trainer.trainer": "trainers.watch",
    "pytorch_lightning.trainer.trainer": "trainers.watch",
    "torch": "hooks.imported",
    "torch._dynamo.callback": "hooks.watch_compiling",
    "torch._dynamo.eval_frame": "hooks.watch_calls",
    "torch._dynamo.symbolic_convert": "hooks.watch_breaks",
    "torch._dynamo.trace_rules": "hooks.watch_dynamo",
    "torch._dynamo.utils": "hooks.watch_metrics",
    "torch.amp.grad_scaler": "hooks.watch_scalers",
    "torch.cuda": "hooks.watch_devices",
    "torch.cuda.graphs": "devices.watch_graphs",
    "torch.distributed.checkpoint.state_dict_saver": "exchange.exchange.watch_saves",
    "torch.distributed.distributed_c10d": "exchange.exchange.watch_sums",
    "torch.nn.modules.module": "hooks.watch_modules",
    "torch.nn.parallel.data_parallel": "exchange.exchange.watch_data_parallel",
    "torch.nn.parallel.distributed": "exchange.ddp.watch",
    "torch.optim.lr_scheduler": "hooks.watch_schedules",
    "torch.optim.optimizer": "hooks.watch_optimizers",
    "torch.serialization": "exchange.exchange.watch_saves",
    "torch.utils.checkpoint": "built.places.watch_checkpointing",
    "torch.utils.data._utils.worker": "loader.loaders.watch",
    "torch.utils.data.dataloader": "hooks.watch_loaders",
    "transformers.training_args": "trainers.watch",
}
HOOKS = {"tensorflow": TENSORFLOW, "keras": KERAS, "torch": TORCH}
"""By folder of ours: the modules of frameworks, and of libraries that train with them, each with
the file and its function that set the module's hooks, or those of a class in it."""

Hook = Callable[[ModuleType, float], None]
"""Takes the module and the seconds its import took (0 if it was there already)."""

LOOPS = {"tensorflow": "TensorFlowLoops", "torch": "TorchLoops"}
"""What the hooks of a framework share: a class of its `loops`."""

S3 = ("aiobotocore.client", "botocore.client")
"""The modules of S3's clients that are hooked."""


def start(run_file: str) -> None:
    """Read what is asked for and set the hooks; called once per interpreter."""
    with open(run_file, encoding="utf-8") as file:
        settings = json.load(file)
    process = Process(settings)
    process.record.write(
        "hello",
        pid=os.getpid(),
        argv=list(sys.orig_argv),
        python=sys.version.split()[0],
    )
    process.record.flush()
    if settings.get("sources"):
        from .process import sources

        sources.install(settings["sources"], process.patched)
    if settings.get("guarded") and os.geteuid() != 0:
        from .shield import writers

        writers.mend_renames(settings["guarded"])
    if settings.get("seed") is not None:
        seed_all(settings["seed"], process)
    hooks: dict[str, Hook] = {}
    if settings.get("plain"):
        add_shield(process, hooks)
    else:
        process.watch_for_end()
        hooks = Frameworks(Training(process)).hooks()
        hooks["tempfile"] = lambda module, seconds: follow_temporary(process.record, module)
    PostImport(hooks, lambda name, error: process.failed(f"hook {name}", error)).install()


class Frameworks:
    """The hooks of a process, and what those of one framework share, made with the first."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._process = training.process
        self._loops: dict[str, Any] = {}

    @cached_property
    def _counts(self) -> Counts:
        from .reads import s3

        return s3.counts(self._process)

    def hooks(self) -> dict[str, Hook]:
        """Return the hooks by the names of their modules."""
        hooks: dict[str, Hook] = {
            **dict.fromkeys(S3, self._hook_s3),
            "jax": lambda module, seconds: self._not_observed(
                "JAX", getattr(module, "__version__", "")
            ),
        }
        for package, modules in HOOKS.items():
            hooks |= dict.fromkeys(modules, partial(self._hook, package))
        add_shield(self._process, hooks)
        return hooks

    def _hook(self, package: str, module: ModuleType, seconds: float) -> None:
        name = package
        if package == "keras":
            from .tensorflow.models import backend

            name = "tensorflow" if module.__name__.startswith("tf_keras.") else backend()
        else:
            self._imported(module, seconds)
        if name not in LOOPS:
            self._not_observed(f"Keras on {name}")
            return
        if name not in self._loops:
            loops = getattr(import_module(f".{name}.loops", __package__), LOOPS[name])
            self._loops[name] = loops(self._training)
        set_hook(self._loops[name], module, package)

    def _hook_s3(self, module: ModuleType, seconds: float) -> None:
        from .reads import s3

        if self._process.settings.get("leg") is None:
            s3.hook(self._process, self._counts, module)

    def _not_observed(self, name: str, version: str = "") -> None:
        self._process.record.write("unsupported", name=name, version=version)
        self._process.record.flush()

    def _imported(self, module: ModuleType, seconds: float) -> None:
        """A module of a framework was imported: this process may train."""
        self._process.watch()
        self._training.reads.install()
        if (name := module.__name__) in LOOPS:
            version = str(getattr(module, "__version__", ""))
            self._process.record.write("import", name=name, version=version, seconds=seconds)


def set_hook(loops: Any, module: ModuleType, package: str) -> None:
    """Set the hooks of a framework's module that was just imported."""
    where, _, name = HOOKS[package][module.__name__].partition(":")
    part, _, function = where.rpartition(".")
    hooked = getattr(module, name) if name else module
    getattr(import_module(f".{package}.{part}", __package__), function)(loops, hooked)


def add_shield(process: Process, hooks: dict[str, Hook]) -> None:
    """Add to `hooks` those that redirect writers; what is there already follows them."""

    @cache
    def writing() -> Writing:
        from .shield.redirected import Writing

        return Writing(process)

    def redirecting(first: Hook | None) -> Hook:
        def hook(module: ModuleType, seconds: float) -> None:
            try:
                writing().hook(module)
            finally:
                if first is not None:
                    first(module, seconds)

        return hook

    for name in MODULES:
        hooks[name] = redirecting(hooks.get(name))


def seed_all(seed: int, process: Process) -> None:
    """Start every source of random numbers from one seed, so that two runs can be compared.

    Each is seeded right after the import that brings it; a seed that the script sets itself comes
    later and wins. Keras takes its seeds from Python's `random` and from TensorFlow's, workers of a
    PyTorch `DataLoader` theirs from PyTorch's. Not seeded is what asks the operating system
    (`secrets`, `uuid4`) or is meant to be different each time. The order of sets of strings is
    fixed by `PYTHONHASHSEED`, before the process starts.
    """

    def numpy(module: Any, seconds: float) -> None:
        module.seed(seed)
        _seed_unseeded(module.bit_generator, seed)

    PostImport(
        {
            "torch": lambda module, seconds: module.manual_seed(seed),
            "random": lambda module, seconds: module.seed(seed),
            "numpy.random": numpy,
            "tensorflow": lambda module, seconds: module.random.set_seed(seed),
        },
        lambda name, error: process.failed(f"seeding {name}", error),
    ).install()


def _seed_unseeded(module: ModuleType, seed: int) -> None:
    """Let generators made without a seed (`default_rng()`) draw one from a seeded stream.

    NumPy asks the system for it with `randbits`; each generator gets its own, in the
    order they are made.
    """
    import random

    if not hasattr(module, "randbits"):
        raise AttributeError("numpy.random.bit_generator.randbits is not there any more")
    module.randbits = random.Random(seed).getrandbits  # type: ignore[attr-defined]


# Call a function right after a module was imported for the first time.
#
# A finder of our own instead of wrapt's: it costs 5 ms less in every interpreter that the child
# reaches, most of which never import a framework. Nor is it derived from `importlib.abc`, whose
# import takes 17 ms more: the interpreter asks for the methods only.


class PostImport:
    """Runs hooks after the modules they are for have been executed.

    `hooks` maps module names to hooks. `failed` is called
    with the module's name and the exception if a hook raises; the import goes on.
    """

    def __init__(self, hooks: dict[str, Hook], failed: Callable[[str, Exception], None]) -> None:
        self._hooks = dict(hooks)
        self._failed = failed
        self._finding: set[str] = set()

    def install(self) -> None:
        """Stand before all other finders, and catch up with what is imported already."""
        sys.meta_path.insert(0, self)
        for name in list(self._hooks):
            if name in sys.modules:
                self.ran(name, sys.modules[name], 0.0)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Answer for the modules with hooks: the spec the others find, loader wrapped."""
        if fullname not in self._hooks or fullname in self._finding:
            return None
        self._finding.add(fullname)
        try:
            spec = find_spec(fullname)
        except (ImportError, ValueError):
            return None
        finally:
            self._finding.discard(fullname)
        if spec is None or spec.loader is None:
            return None
        spec.loader = _Loader(spec.loader, self)  # type: ignore[assignment]
        return spec

    def ran(self, name: str, module: ModuleType, seconds: float) -> None:
        """Run and forget the hook of `name`."""
        hook = self._hooks.pop(name, None)
        if hook is None:
            return
        try:
            hook(module, seconds)
        except Exception as error:
            self._failed(name, error)


class _Loader:
    def __init__(self, inner: Any, finder: PostImport) -> None:
        self._inner = inner
        self._finder = finder

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        module.__loader__ = self._inner
        began = time.monotonic()
        self._inner.exec_module(module)
        self._finder.ran(module.__name__, module, time.monotonic() - began)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

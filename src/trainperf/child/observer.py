"""The observer of one process: what it records, which hooks it sets, how it stops."""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from .importing import Hook, PostImport
from .reads import FileReads
from .recorder import Recorder
from .writing_modules import add_hooks

if TYPE_CHECKING:
    from .driver import Driver
    from .losses import Losses
    from .ranks import World

OWN_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
WAIT_TO_BE_STOPPED_S = 20.0
TEMPORARY = "__autograph_generated_file"
"""Begins the names of modules that AutoGraph keeps in temporary files until exit."""


class Observer:
    """Everything the hooks share.

    `off` is true while trainperf itself uses the framework, so that hooks let calls
    through; `driver` is the one that times the current training loop.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.record = Recorder(settings["folder"])
        self.reads = FileReads(self)
        self.clock = time.monotonic
        self.off = False
        self.driver: Driver | None = None
        self.world: World | None = None  # the job this process is a rank of
        self.losses: Losses | None = None
        self.pid = os.getpid()
        self.facts: dict[str, Any] = {}
        self._noted: set[str] = set()
        self._watching = False
        self._temporary: set[str] = set()
        self._folders: list[str] = []

    def note(self, text: str) -> None:
        """Record something the report should say; each text once."""
        if text not in self._noted:
            self._noted.add(text)
            self.record.write("note", text=text)

    def failed(self, what: str, error: BaseException) -> None:
        """Record that a part of the observer did not work; the program goes on."""
        self.note(f"{what}: {type(error).__name__}: {error}"[:500])

    def fact(self, name: str, value: Any) -> None:
        """Record a fact by name; a later value replaces an earlier one."""
        self.record.write("fact", k=name, v=value)

    def patched(self, path: str) -> None:
        """Record that the patched text of a file was run in its place."""
        self.record.write("patched", file=path)
        self.record.flush()

    def framework_imported(self) -> None:
        """Start what only a process that may train needs."""
        if self._watching:
            return
        self._watching = True
        self.reads.install()
        thread = threading.Thread(target=self._watch, name="trainperf-watch", daemon=True)
        thread.start()

    def forked(self) -> None:
        """Become the observer of a forked child, which starts with a clean record."""
        self.record.forked()
        self.reads.forked()
        self.driver = None
        self.pid = os.getpid()
        self._watching = False

    def quiet(self) -> None:
        """Record nothing more, and take back what was: this process only helps another."""
        self.off = True
        self.driver = None
        self.record.discard()
        parent = sys.modules["multiprocessing"].parent_process()
        if parent is not None:
            self.reads.serve(parent.pid)

    def finish(self) -> None:
        """Say that all is measured and wait for trainperf to stop the process.

        It waits rather than exits so that nothing that stands after the training
        script in a launcher's script is run.
        """
        self.record_temporary()
        self.record.flush()
        if self.world is not None:
            try:
                self.world.meet("finish")  # who goes first takes the others' store along
            except Exception as error:
                self.failed("waiting for the other ranks", error)
        self.record.write("done")
        self.record.flush()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                pass
        time.sleep(WAIT_TO_BE_STOPPED_S)
        os._exit(0)

    def record_temporary(self) -> None:
        """Name the files that a process which is stopped cannot remove at its exit."""
        new = [
            name
            for name in list(sys.modules)
            if name.startswith(TEMPORARY) and name not in self._temporary
        ]
        files = [getattr(sys.modules.get(name), "__file__", None) for name in new]
        self._temporary.update(new)
        if files:
            self.record.write("temporary", files=[file for file in files if file])
        folders = _temporary_folders()
        if folders != self._folders:
            self._folders = folders
            self.record.write("folders", names=folders)
            self.record.flush()

    def _watch(self) -> None:
        """Every second, write what a loop that hangs has left, and look for the parent."""
        parent = self.settings["parent"]
        visible = _exists(parent)  # not so in a container's own process namespace
        while True:
            time.sleep(1.0)
            self.record_temporary()
            self.record.flush()
            if visible and not _exists(parent):
                os._exit(1)


def _temporary_folders() -> list[str]:
    """The folders that Python would remove at exit: `TemporaryDirectory`, multiprocessing's."""
    tempfile = sys.modules.get("tempfile")
    if tempfile is None:
        return []
    import weakref

    process = sys.modules.get("multiprocessing.process")
    config = getattr(process.current_process(), "_config", {}) if process else {}
    sockets = [config["tempdir"]] if config.get("tempdir") else []

    cleanup = tempfile.TemporaryDirectory._cleanup.__func__
    registry = dict(getattr(weakref.finalize, "_registry", {}))
    return sorted(
        sockets
        + [
            info.args[0]
            for info in registry.values()
            if getattr(info.func, "__func__", None) is cleanup and info.args
        ]
    )


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def start(run_file: str) -> None:
    """Read what is asked for and set the hooks; called once per interpreter."""
    with open(run_file, encoding="utf-8") as file:
        settings = json.load(file)
    observer = Observer(settings)
    observer.record.write(
        "hello",
        pid=os.getpid(),
        ppid=os.getppid(),
        argv=list(sys.orig_argv),
        python=sys.version.split()[0],
    )
    observer.record.flush()
    if settings.get("sources"):
        from . import sources

        sources.install(settings["sources"], observer.patched)
    if settings.get("guarded") and os.geteuid() != 0:
        from . import changes

        changes.mend_renames(settings["guarded"], changes.Changes())
    if settings.get("leg") is not None:
        from .losses import Losses

        observer.losses = Losses(observer)
    if settings.get("seed") is not None:
        from . import seeding

        seeding.install(settings["seed"], observer)
    os.register_at_fork(after_in_child=observer.forked)
    atexit.register(_exits, observer)
    _watch_errors(observer)
    PostImport(
        _hooks(observer), lambda name, error: observer.failed(f"hook {name}", error)
    ).install()


def _hooks(observer: Observer) -> dict[str, Hook]:
    """Name the modules to hook; what does the hooking is imported when one comes."""

    def tensorflow(module: ModuleType, seconds: float) -> None:
        from . import tensorflow as part

        observer.framework_imported()
        part.hook(observer, module, seconds)

    def keras(module: ModuleType, seconds: float) -> None:
        from . import keras as part

        part.hook(observer, module)

    def tf_keras(module: ModuleType, seconds: float) -> None:
        from . import keras_legacy as part

        part.hook(observer, module)

    def torch(module: ModuleType, seconds: float) -> None:
        from . import torch as part

        observer.framework_imported()
        part.hook(observer, module, seconds)

    def s3(module: ModuleType, seconds: float) -> None:
        from . import s3 as part

        part.hook(observer, module, seconds)

    hooks: dict[str, Hook] = dict.fromkeys(
        (
            "tensorflow",
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
    hooks |= dict.fromkeys(("aiobotocore.client", "botocore.client"), s3)
    add_hooks(observer, hooks)
    return hooks


def _exits(observer: Observer) -> None:
    if os.getpid() != observer.pid:
        return
    if observer.driver is not None:
        observer.driver.interrupted()
    observer.record.write("exit")
    observer.record.flush()


def _watch_errors(observer: Observer) -> None:
    """Record an uncaught exception, and keep our frames out of the printed traceback."""
    shown = sys.excepthook

    def excepthook(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        try:
            observer.record.write("error", type=kind.__name__, text=str(error)[:2000])
            observer.record.flush()
            trace = _without_ours(trace)
        finally:
            shown(kind, error.with_traceback(trace), trace)

    sys.excepthook = excepthook


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    if trace is None:
        return None
    rest = _without_ours(trace.tb_next)
    if trace.tb_frame.f_code.co_filename.startswith(OWN_PACKAGE):
        return rest
    trace.tb_next = rest
    return trace

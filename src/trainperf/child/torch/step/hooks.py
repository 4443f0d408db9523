"""The hooks around the calls of a step, while a few steps are taken apart, and what they see."""

from __future__ import annotations

import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any, NamedTuple

from ...process import frames
from ...process.frames import Place
from ...process.process import OWN_PACKAGE as OWN
from ...process.process import Guard
from ..graphs import capturing
from .calls import LOG, SCALER, TEXT, Call, Ledger, Seen


class Hooks:
    """Makes the hooks; while `on` is false they let everything through.

    `failed` is told of a fault of ours. Only what the main thread does is looked at. `waits` is the
    loader's `__next__` that is under way, until its time is known from the driver.
    """

    def __init__(
        self, torch: Any, ledger: Ledger, process: Guard, failed: Callable[[BaseException], None]
    ) -> None:
        self.ledger = ledger
        self.seen = Seen(torch)
        self.failed = failed
        self.on = False
        self.waits: Call | None = None
        self._process = process
        self._torch = torch
        self._on_gpu = bool(torch.cuda.is_initialized())
        self._folder = os.path.dirname(os.path.abspath(str(torch.__file__))) + os.sep
        self._main = threading.main_thread().ident

    def timed(
        self,
        part: str,
        what: str,
        before: Callable[..., None] | None = None,
        after: Callable[..., None] | None = None,
        place: Callable[[], Place | None] | None = None,
    ) -> Callable[[Any], Any]:
        """The maker of a hook that times a function; of those of a tensor only the user's calls.

        `before` and `after` are given the call and its arguments, and what it returned. `place`
        says where it is called, if that is not where the user's source calls PyTorch.
        """
        of_tensor = part in ("sync", "transfer")
        # The user's calls of a tensor come through no other file of PyTorch's.
        passed = self._folder + ("_tensor.py" if of_tensor else "")
        if what in TEXT:  # a logger may stand between
            place = lambda: _place(frames.users_frame()[0])  # noqa: E731

        def enter(args: Any, kwargs: Any) -> Call | None:
            found = _beyond(passed) if place is None else place()
            if of_tensor and found is None:
                self._library_calls(part, what, args[0])
                return None
            call = self.ledger.enter(part, what, found, id(args[0]) if part == "forward" else 0)
            if before is not None:
                before(call, args, kwargs)
            return call

        def make(original: Any) -> Any:
            def hook(*args: Any, **kwargs: Any) -> Any:
                if not (self._watches() and self.ledger.takes(part)):
                    return original(*args, **kwargs)
                call = self._guarded(enter, args, kwargs)
                try:
                    result = original(*args, **kwargs)
                except BaseException:
                    self._guarded(self.ledger.leave, call)
                    raise
                if call is not None and self.on:
                    self._guarded(self.ledger.leave, call)
                    if after is not None:
                        self._guarded(after, call, args, kwargs, result)
                return result

            return hook

        return make

    def loggers(self) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
        """Yield what of `LOGGERS` this process has imported, with the maker of its hook.

        Its place is where the user's source calls it, or defines what a library calls back.
        """
        for logger in LOGGERS:
            module, library = sys.modules.get(logger.module), logger.module.partition(".")[0]
            owner: Any = getattr(module, logger.owner, None) if logger.owner else module
            owners = [] if owner is None or logger.called_back else [owner]
            if isinstance(owner, type):
                owners += [cls for cls in _subclasses(owner) if cls.__name__ not in HAND_ON]
            for holder in owners:
                for name, value in list(vars(holder).items()):
                    function = isinstance(value, (FunctionType, MethodType))
                    if function and any(fnmatchcase(name, pattern) for pattern in logger.names):
                        place = partial(_through, library)
                        if logger.called_back:
                            place = partial(_head, value)
                        yield holder, name, self.timed(LOG, _words(holder, name), place=place)

    def autocast(self, original: Any) -> Any:
        """The hook of `autocast.__enter__`: a region inside a forward counts as around it."""

        def __enter__(region: Any) -> Any:  # noqa: N807
            result = original(region)
            if self.on and self.ledger.open and self.ledger.open[-1].part == "forward":
                self.seen.region = region
            return result

        return __enter__

    def steps(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Before an optimizer's step; `args` has the optimizer first."""
        self.stepped(optimizer)  # of a step before, which has raised
        top = self.ledger.open[-1].what if self.ledger.open else ""
        if self._watches() and (top == SCALER or self.ledger.takes("optimizer")):
            self._guarded(self._steps, optimizer, args, kwargs)

    def _steps(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        call = self.ledger.enter("optimizer", "step", _beyond(self._folder), id(optimizer))
        self.seen.steps(call, args, kwargs)

    def stepped(self, optimizer: Any) -> None:
        """After an optimizer's step; it is not called where the step has raised."""
        if self._watches():
            for call in reversed(self.ledger.open):
                if call.what == "step" and call.of == id(optimizer):
                    self._guarded(self.ledger.leave, call)
                    return

    # ------------------------------------------------- what is told of single calls

    def next_begins(self, call: Call, args: Any, kwargs: Any) -> None:
        """A loader is asked for a batch: what happens in it is no part of the step's.

        The driver says how long its loop waited; the wait for another loader's batch is
        input as well, unless it feeds an evaluation.
        """
        self.waits = call

    def next_ends(self, call: Call, *_: Any) -> None:
        if self.waits is call and self._torch.is_grad_enabled():
            call.part = "input"

    def moved(self, call: Call, args: Any, kwargs: Any, result: Any) -> None:
        """A copy between devices, and not to another dtype; to the host, it is waited for.

        `copy_` fills the tensor that it returns.
        """
        source = args[1] if call.what == "copy_" and len(args) > 1 else args[0]
        if getattr(source, "device", result.device) == result.device:
            call.part = ""
        elif result.device.type == "cpu":
            call.part = "sync"

    def awaited(self, call: Call, args: Any, kwargs: Any) -> None:
        """Nobody waits for a tensor on the host, unless there is no other device at all."""
        if self._on_gpu and args[0].device.type == "cpu":
            call.part = ""

    # ----------------------------------------------------------------- internal

    def _watches(self) -> bool:
        mine = self.on and threading.get_ident() == self._main and not self._process.off
        return mine and not capturing()  # a graph's calls are written down, not done

    def _library_calls(self, part: str, what: str, tensor: Any) -> None:
        """A library reads a tensor: whether it waits for it, or would for that of a GPU."""
        waits = part == "sync" and tensor.device.type != "cpu"
        if waits or (part == "sync" and what != "cpu" and not self._on_gpu):
            self.ledger.read()

    def _guarded(self, act: Callable[..., Any], *args: Any) -> Any:
        """Do what is ours, while it is `on`; None where it fails."""
        try:
            return act(*args) if self.on else None
        except Exception as error:
            self.failed(error)
            return None


def _beyond(passed: str) -> Place | None:
    """Where the user's source calls what lies at `passed`; None if another library does."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((OWN, passed, "<")):
        frame = frame.f_back
    return _place(frame)


def _through(library: str) -> Place | None:
    """Where the user's source calls a library; None if another one does."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if not frame.f_code.co_filename.startswith(OWN) and module.partition(".")[0] != library:
            break
        frame = frame.f_back
    return _place(frame)


def _place(frame: FrameType | None) -> Place | None:
    if frame is None or not frames.is_users(frame.f_code.co_filename):
        return None
    return Place(frame.f_code, frame.f_lasti, frame.f_lineno)


# The calls by which libraries show a training or put it on record.


class Logger(NamedTuple):
    """Functions of a module, or methods of a class of it, by patterns of their names.

    With `called_back` a library calls what subclasses define.
    """

    module: str
    owner: str
    names: tuple[str, ...]
    called_back: bool = False


LOGGERS = (
    Logger("mlflow", "", ("log_*",)),
    Logger("wandb", "", ("log",)),
    Logger("wandb.sdk.wandb_run", "Run", ("log",)),
    Logger("wandb.sdk.data_types.histogram", "Histogram", ("__init__",)),
    Logger("wandb.sdk.data_types.image", "Image", ("__init__",)),
    Logger("tensorboardX.writer", "SummaryWriter", ("add_*", "flush")),
    Logger("torch.utils.tensorboard.writer", "SummaryWriter", ("add_*", "flush")),
    Logger("tqdm.std", "tqdm", ("refresh", "set_*", "update")),
    Logger("transformers.trainer", "Trainer", ("log",)),
    Logger("transformers.trainer_callback", "TrainerCallback", ("on_*",), called_back=True),
    *(
        each
        for package, fabric in (
            ("lightning.pytorch", "lightning.fabric"),
            ("pytorch_lightning", "lightning_fabric"),
        )
        for each in (
            Logger(f"{package}.core.module", "LightningModule", ("log", "log_dict")),
            Logger(f"{package}.callbacks.callback", "Callback", ("on_*",), called_back=True),
            Logger(f"{fabric}.loggers.logger", "Logger", ("log_metrics",), called_back=True),
        )
    ),
)
"""Names are those of mlflow 3, wandb 0.31, tensorboardX 2.6, PyTorch 2.13, tqdm 4.70,
transformers 5.23 and lightning 2.6."""

HAND_ON = ("CallbackHandler",)
"""Classes that are called back only to call others."""


def _head(function: Any) -> Place | None:
    """Where the user defines a function, None where a library does."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if isinstance(code, CodeType) and frames.is_users(code.co_filename):
        return Place(code, 0, code.co_firstlineno)
    return None


def _subclasses(cls: type) -> Iterator[type]:
    below: list[type] = cls.__subclasses__()
    for each in below:
        yield each
        yield from _subclasses(each)


def _words(owner: Any, name: str) -> str:
    """The library, the class and the name: `wandb.Run.log`, `tqdm.update`, `wandb.Histogram`."""
    if not isinstance(owner, type):
        return f"{owner.__name__}.{name}"
    library = owner.__module__.partition(".")[0]
    words = [library, owner.__name__, *([] if name == "__init__" else [name])]
    return ".".join(words[1:] if library in (owner.__name__, "__main__") else words)

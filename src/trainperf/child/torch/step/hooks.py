"""The hooks around the calls of a step, while a few steps are taken apart, and what they see."""

from __future__ import annotations

import inspect
import threading
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any

from ...process import frames
from ...process.frames import Place, site
from ..batches import apart, leaves, mapped
from ..built.places import ModelCall, OptimizerCalls
from ..graphs import capturing
from .calls import LOG, SCALER, TEXT, Call, Ledger
from .loggers import Found
from .patches import Callers

Before = Callable[[Call, tuple[Any, ...], dict[str, Any]], None]
After = Callable[[Call, tuple[Any, ...], dict[str, Any], Any], None]

MODELS = 4
"""Calls are kept of so many models: they hold on to a batch each."""


class Hooks:
    """Makes the hooks; while `on` is false they let everything through.

    `off` says that trainperf itself uses PyTorch, `failed` is told of a fault of ours.
    Only what the main thread does is looked at. `waits` is the loader's `__next__` that
    is under way, until its time is known from the driver.
    """

    def __init__(
        self,
        torch: Any,
        ledger: Ledger,
        off: Callable[[], bool],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.ledger = ledger
        self.seen = Settings(torch)
        self.off = off
        self.failed = failed
        self.on = False
        self.waits: Call | None = None
        self._torch = torch
        self._on_gpu = bool(torch.cuda.is_initialized())
        self._callers = Callers(torch)
        self._main = threading.main_thread().ident

    def timed(
        self,
        part: str,
        what: str,
        before: Before | None = None,
        after: After | None = None,
        users: bool = False,
        at: Callable[[], Place | None] | None = None,
    ) -> Callable[[Any], Any]:
        """The maker of a hook that times a function; with `users`, only the user's calls.

        `at` says where it is called, if that is not where the user's source calls PyTorch.
        """

        def make(original: Any) -> Any:
            def hook(*args: Any, **kwargs: Any) -> Any:
                if not (self._watches() and self.ledger.takes(part)):
                    return original(*args, **kwargs)
                call = None
                try:
                    call = self._enter(part, what, users, args, at)
                    if call is not None and before is not None:
                        before(call, args, kwargs)
                except Exception as error:
                    self.failed(error)
                if call is None:
                    return original(*args, **kwargs)
                try:
                    result = original(*args, **kwargs)
                except BaseException:
                    self._leave(call)
                    raise
                self._leave(call, after, args, kwargs, result)
                return result

            return hook

        return make

    def logs(self, found: Found) -> Callable[[Any], Any]:
        """The maker of the hook of what shows a training or puts it on record.

        Its place is where the user's source calls it, or defines what a library calls back.
        """

        def make(original: Any) -> Any:
            own: Place | None = None
            code = getattr(inspect.unwrap(original), "__code__", None)
            if isinstance(code, CodeType) and frames.is_users(code.co_filename):
                own = Place(code, 0, code.co_firstlineno)

            def at() -> Place | None:
                return own if found.called_back else self._callers.through(found.library)

            return self.timed(LOG, found.said, at=at)(original)

        return make

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
            try:
                call = self._enter("optimizer", "step", False, (), None)
                if call is not None:
                    call.of = id(optimizer)
                    self.seen.steps(call, args, kwargs)
            except Exception as error:
                self.failed(error)

    def stepped(self, optimizer: Any) -> None:
        """After an optimizer's step; it is not called where the step has raised."""
        if not self._watches():
            return
        for call in reversed(self.ledger.open):
            if call.what == "step" and call.of == id(optimizer):
                self._leave(call)
                return

    # ------------------------------------------------- what is told of single calls

    def next_begins(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A loader is asked for a batch: what happens in it is no part of the step's.

        The driver says how long its loop waited; the wait for another loader's batch is
        input as well, unless it feeds an evaluation.
        """
        self.waits = call

    def next_ends(self, call: Call, *_: Any) -> None:
        if self.waits is call and self._torch.is_grad_enabled():
            call.part = "input"

    def moved(self, call: Call, args: tuple[Any, ...], kwargs: Any, result: Any) -> None:
        """A copy between devices, and not to another dtype; to the host, it is waited for.

        `copy_` fills the tensor that it returns.
        """
        source = args[1] if call.what == "copy_" and len(args) > 1 else args[0]
        if getattr(source, "device", result.device) == result.device:
            call.part = ""
        elif result.device.type == "cpu":
            call.part = "sync"

    def awaited(self, call: Call, args: tuple[Any, ...], kwargs: Any) -> None:
        """Nobody waits for a tensor on the host, unless there is no other device at all."""
        if self._on_gpu and args[0].device.type == "cpu":
            call.part = ""

    # ----------------------------------------------------------------- internal

    def _watches(self) -> bool:
        mine = self.on and threading.get_ident() == self._main and not self.off()
        return mine and not capturing()  # a graph's calls are written down, not done

    def _enter(
        self,
        part: str,
        what: str,
        users: bool,
        args: tuple[Any, ...],
        at: Callable[[], Place | None] | None,
    ) -> Call | None:
        """A call that begins; None where a library makes one that only the user's are timed of."""
        if at is not None:
            place = at()
        elif what in TEXT:  # a logger may stand between
            place = self._callers.users_place()
        else:
            place = self._callers.of_tensor() if users else self._callers.through_torch()
        if users and place is None:
            device = args[0].device.type if part == "sync" else "cpu"
            # Whether a library that reads a tensor waits for it, or would for that of a GPU.
            if device != "cpu" or (part == "sync" and what != "cpu" and not self._on_gpu):
                self.ledger.read()
            return None
        return self.ledger.enter(part, what, place)

    def _leave(
        self,
        call: Call,
        after: After | None = None,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        result: Any = None,
    ) -> None:
        if not self.on:
            return
        try:
            self.ledger.leave(call)
            if after is not None:
                after(call, args, kwargs or {}, result)
        except Exception as error:
            self.failed(error)


class Settings:
    """The arguments of the calls of a step, and the settings that they are made under.

    `autocast` has the type of numbers of each place that calls a model whose output is derived:
    not of a teacher, nor of an evaluation.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.region: Any = None
        self.retains = False
        self.closure = False
        self.scales = False
        self.autocast: dict[Place | None, str] = {}
        self._models: dict[int, tuple[Any, Place | None, Any, set[Any]]] = {}
        self._steps: dict[int, Place] = {}
        self._trains: set[int] = set()

    def calls(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A module or an optimizer, the first of `args`, is called."""
        call.of = id(args[0])

    def forward(
        self, call: Call, args: tuple[Any, ...], keywords: dict[str, Any], output: Any
    ) -> None:
        """An outermost module, the first of `args`, was called."""
        module, *arguments = args
        region, self.region = self.region, None
        first = next(iter(module.parameters()), None)
        if first is None or not self._torch.is_grad_enabled():
            return
        if module.training:
            self._trains.add(id(module))
        elif id(module) in self._trains:
            return  # an evaluation that keeps its graph
        dtype: Any = ""
        if self._torch.is_autocast_enabled(first.device.type):
            dtype = self._torch.get_autocast_dtype(first.device.type)
        elif getattr(region, "_enabled", False):
            dtype = region.fast_dtype
        if any(leaf.requires_grad for leaf in leaves(output)):
            self.autocast[call.place] = str(dtype).rpartition(".")[2]
        shapes = self._models[id(module)][3] if id(module) in self._models else set()
        if id(module) in self._models or len(self._models) < MODELS:
            given = mapped((tuple(arguments), keywords), apart)  # none keeps another's graph
            shapes.add(tuple(tuple(one.shape) for one in leaves(given)))
            self._models[id(module)] = weakref.ref(module), call.place, given, shapes

    def backward(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        names = ("tensors", "grad_tensors", "retain_graph", "create_graph")
        given = dict(zip(names, args, strict=False)) | kwargs
        self.retains |= bool(given.get("retain_graph") or given.get("create_graph"))

    def steps(self, call: Call, args: Any, kwargs: Any) -> None:
        """An optimizer's step begins; `args` has the optimizer first."""
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        self.closure |= callable(closure)
        if call.place is not None:
            self._steps[call.of] = call.place

    def scaler(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A gradient scaler is used; a disabled one does nothing."""
        self.scales |= bool(args[0].is_enabled())

    def hand_over(self, loops: Any) -> None:
        """Leave what the probes and the facts need, by ids of models and optimizers.

        The loop is about to be ended: its models may be held on to from here.
        """
        for key, (reference, place, (args, kwargs), shapes) in self._models.items():
            if (module := reference()) is not None:
                settings = self.autocast.get(place, ""), self.retains
                call = ModelCall(module, args, kwargs, site(place), len(shapes), *settings)
                loops.models.calls[key] = call
        for key, place in self._steps.items():
            loops.optimizer_calls.setdefault(key, OptimizerCalls()).step = site(place)

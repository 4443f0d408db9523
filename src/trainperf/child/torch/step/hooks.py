"""The hooks around the calls of a step, while a few steps are taken apart."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from types import CodeType
from typing import Any

from ...process import frames
from ...process.frames import Place
from ..graphs import capturing
from .arguments import CallArguments
from .calls import EVALUATION, LOG, SCALER, TEXT, Call, Ledger
from .loggers import Found
from .patches import Callers

Before = Callable[[Call, tuple[Any, ...], dict[str, Any]], None]
After = Callable[[Call, tuple[Any, ...], dict[str, Any], Any], None]


class Hooks:
    """Makes the hooks; while `on` is false they let everything through.

    `off` says that trainperf itself uses PyTorch, `failed` is told of a fault of ours.
    Only what the main thread does is looked at. `waits` is the loader's `__next__` that
    is under way, until its time is known from the driver; `streams` tells what goes on
    beside the step.
    """

    def __init__(
        self,
        torch: Any,
        ledger: Ledger,
        off: Callable[[], bool],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.ledger = ledger
        self.streams = Streams(torch)
        self.seen = CallArguments(torch)
        self.off = off
        self.failed = failed
        self.on = False
        self.waits: Call | None = None
        self._torch = torch
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
        when: Callable[..., bool] | None = None,
    ) -> Callable[[Any], Any]:
        """The maker of a hook that times a function; with `users`, only the user's calls.

        `at` says where it is called, if that is not where the user's source calls PyTorch, and
        `when`, given the arguments, whether the call is one to be timed.
        """

        def make(original: Any) -> Any:
            def hook(*args: Any, **kwargs: Any) -> Any:
                if not (self._watches() and self.ledger.takes(part)):
                    return original(*args, **kwargs)
                call = None
                try:
                    if when is None or when(*args, **kwargs):
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

    def forward_begins(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """An outermost module is called: in training, or to evaluate something."""
        call.of = id(args[0])
        if getattr(args[0], "training", True) and self._torch.is_grad_enabled():
            self.streams.computes()
        else:
            call.part = EVALUATION

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
        """A copy between devices, and not to another dtype; to the host, it is waited for."""
        self._between(call, args[0].device, result.device)

    def filled(self, call: Call, args: tuple[Any, ...], kwargs: Any, result: Any) -> None:
        """A copy into a tensor that is there; between devices, as for `moved`."""
        source = args[1] if len(args) > 1 else result
        self._between(call, getattr(source, "device", result.device), result.device)

    def _between(self, call: Call, source: Any, target: Any) -> None:
        if source == target:
            call.part = ""
        elif target.type == "cpu":
            call.part = "sync"

    def awaited(self, call: Call, args: tuple[Any, ...], kwargs: Any) -> None:
        """Nobody waits for a tensor on the host, unless there is no other device at all."""
        if self.streams.used and args[0].device.type == "cpu":
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
            if device != "cpu" or (part == "sync" and what != "cpu" and not self.streams.used):
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


# The streams of a step on a GPU: the one it computes on, and those beside it.
#
# A copy on a stream of its own goes on while the step computes. What it costs the step is how long
# that has to wait for it: nothing, if it is hidden.


class Streams:
    """Tells where a step computes, from a boundary on; `copied` names the streams beside it.

    Nothing is asked of a program that does not use CUDA.
    """

    def __init__(self, torch: Any) -> None:
        self._cuda = torch.cuda
        self._computes: dict[int, int] = {}
        self.copied: set[int] = set()
        self.used = bool(torch.cuda.is_initialized())

    def computes(self) -> None:
        """The step computes on the stream that is in use now."""
        if self.used:
            self._computes[self._cuda.current_device()] = self._in_use()

    def copies_in_step(self, *_: Any, **__: Any) -> bool:
        """Whether a copy that is queued now is no part of what goes on beside the step."""
        computes = self._computes.get(self._cuda.current_device()) if self.used else None
        if computes is None or computes == self._in_use():
            return True
        self.copied.add(self._in_use())
        return False

    def awaits_copies(self, one: Any, stream: Any = None, event: Any = None) -> bool:
        """Whether a call lets the step wait for copies beside it, on the stream it computes on.

        The call is `one.wait_stream(stream)`, `one.wait_event(event)`, or `one.wait(stream)` of
        an event. Which stream an event is of is not known: it counts if anything was copied
        beside the step.
        """
        waits, awaited = one, event if stream is None else stream
        if not hasattr(one, "cuda_stream"):
            waits, awaited = self._cuda.current_stream() if stream is None else stream, one
        if getattr(waits, "cuda_stream", None) not in self._computes.values():
            return False
        other = getattr(awaited, "cuda_stream", None)
        return bool(self.copied) if other is None else other in self.copied

    def _in_use(self) -> int:
        return int(self._cuda.current_stream().cuda_stream)

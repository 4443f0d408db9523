"""Take a few steps of a PyTorch loop apart, call by call.

The hooks are only set while these steps run: they cost a step some tens of µs, and on
a GPU a mark at each of their edges.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import threading
import warnings
import weakref
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, cast

from ...process import frames
from ...process.frames import Place
from ...process.process import OWN_PACKAGE as OWN
from ...process.process import Attempt, Guard
from ..devices import capturing
from .calls import COPIES, LOG, SCALER, TEXT, Call, Ledger, Seen, imported, place_of, record

if TYPE_CHECKING:
    from ...timing.device import Mark
    from ...timing.loops import Loops


UNUSUAL = 3
"""So many steps in which TorchDynamo compiled, or a model was evaluated, are left out; from then
on it is the rule."""
SYNCS = {
    "item": "item",
    "tolist": "tolist",
    "numpy": "numpy",
    "cpu": "cpu",
    "__bool__": "bool",
    "__float__": "float",
    "__int__": "int",
    "__index__": "index",
    "__format__": "format",
    "__repr__": "print",
}
"""Methods of a tensor for which the host needs its numbers, and what they are called."""

_WAITS = "called a synchronizing CUDA operation"
_PROTOTYPE = "Synchronization debug mode is a prototype"
"""The warning of PyTorch when the mode is set for the first time."""
_MINE = re.compile(f"(?:{re.escape(_WAITS)}|{re.escape(_PROTOTYPE)})", re.IGNORECASE)
_OFF, _WARN = 0, 1


class Detail:
    """Hooks around the calls of a step, from `start` at a boundary to `stop`.

    Every step ends with `step_ended`. What cannot be patched is left alone; a fault of
    ours takes the hooks out and is recorded as missing. Only what the main thread does is looked
    at. `_waits` is the loader's `__next__` that is under way, until the driver tells its time.
    """

    def __init__(self, loops: Loops) -> None:
        self._loops: Any = loops
        self._process: Any = loops.process
        self._torch: Any = sys.modules["torch"]
        self._patches = Patches()
        self._filter: Any = None
        self._ledger = Ledger(self._loops.device)
        self._seen = Seen(self._torch)
        self._on = False
        self._waits: Call | None = None
        self._on_gpu = bool(self._torch.cuda.is_initialized())
        self._folder = os.path.dirname(os.path.abspath(str(self._torch.__file__))) + os.sep
        self._main = threading.main_thread().ident
        self._syncs = SyncWarnings(self._torch, self._process)
        self._fault = ""
        self._unusual = 0

    def start(self, asked: bool = False) -> None:
        """Set the hooks, at a boundary: the step that begins is the first.

        Where its loader is `asked` for its batch already, that call is none of those hooked.
        """
        self._on = True
        try:
            self._ledger.begin()
            if asked:
                self._waits = self._ledger.enter("", "loader", None)
                self._waits.carried = True  # it ends with this step at the latest
            self._patch()
            self._patches.listen()
            # PyTorch is not to warn anew where our frame stands in for the user's.
            warnings.filterwarnings("ignore", module=re.escape(__name__) + "$")
            self._filter = warnings.filters[0]
            with Attempt(self._process, "what waits for the GPU"):
                self._syncs.start()  # its filter must stand before that of the hooks
            forked = weakref.WeakMethod(self.forked)
            os.register_at_fork(
                after_in_child=lambda: None if (stop := forked()) is None else stop()
            )
        except Exception as error:
            self._failed(error)

    def step_ended(
        self, began: Mark, ended: Mark, opened: bool = False, evaluated: bool = False
    ) -> None:
        """A step ends now, and the next begins.

        One for which the input was `opened` anew is left out, as is one in which a model was
        `evaluated`, where that is not so in each.
        """
        if not self._on:
            return
        try:
            unusual = (self._patches.compiled() or evaluated) and self._unusual < UNUSUAL
            self._unusual += unusual
            kept = not (opened or unusual)
            self._ledger.step_ended(began, ended, kept=kept)
            self._syncs.step_ended(kept)
            self._waits = None
        except Exception as error:
            self._failed(error)

    def add(self, part: str, seconds: float) -> None:
        """Charge a part, "input", with what the driver measured and what ends now."""
        if self._on:
            self._ledger.add(part, seconds)
            if self._waits is not None:
                self._ledger.leave(self._waits)
            self._waits = None

    def stop(self) -> None:
        """Take the hooks out and record what was seen."""
        self._undo()
        write = self._process.record.write
        with Attempt(self._process, "the parts of a step"):
            if self._fault or not self._ledger.steps:
                reason = self._fault or "no step ended while its parts were timed"
                write("missing", what="split", reason=reason)
                return
            self._ledger.settle()
            record(self._ledger, self._seen, self._syncs.waits, write)
            self._seen.hand_over(self._loops)

    def forked(self) -> None:
        """In a forked worker nothing is timed, and no GPU is waited for or asked."""
        self._syncs.forked()
        self._undo()

    def _patch(self) -> None:
        torch, seen = self._torch, self._seen
        timed, scaler = self._timed, torch.amp.GradScaler
        keras = sys.modules.get("keras.optimizers")  # in a loop of the user's on PyTorch
        loader = torch.utils.data.dataloader._BaseDataLoaderIter
        hooked: list[tuple[Any, str, Callable[[Any], Any]]] = [
            (torch.nn.Module, "__call__", timed("forward", "", None, seen.forward)),
            (torch.nn.Module, "zero_grad", timed("zero_grad", "module")),
            (torch.optim.Optimizer, "zero_grad", timed("zero_grad", "")),
            (scaler, "scale", timed("rest", "scale", seen.scaler)),
            (scaler, "step", timed("optimizer", SCALER, seen.scaler)),
            (scaler, "update", timed("rest", "scaler.update")),
            (getattr(keras, "Optimizer", None), "apply", timed("optimizer", "apply")),
            (torch.autocast, "__enter__", self._autocast),
            (loader, "__next__", timed("", "loader", self._next_begins, self._next_ends)),
            (torch.cuda.CUDAGraph, "replay", timed("graph", "replay")),
            (torch.autograd, "backward", timed("backward", "backward", seen.backward)),
            (torch.autograd, "grad", timed("backward", "grad")),
            *(
                (holder, name, timed(LOG, words, place=place))
                for holder, name, words, place in imported()
            ),
        ]
        for name in COPIES:
            hooked.append((torch.Tensor, name, timed("transfer", name, None, self._moved)))
        for name, what in SYNCS.items():
            hooked.append((torch.Tensor, name, timed("sync", what, self._awaited)))
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            for owner in (torch.nn.utils, torch.nn.utils.clip_grad):
                hooked.append((owner, name, timed("rest", "clip")))
        for owner, name, make in hooked:
            self._patches.replace(owner, name, make)

    def _failed(self, error: BaseException) -> None:
        self._fault = f"taking the step apart failed: {type(error).__name__}: {error}"[:500]
        self._undo()

    def _undo(self) -> None:
        self._on = False
        # What fails of it keeps nothing else from being taken out.
        with Attempt(self._process, "taking the hooks of a step out"):
            self._syncs.stop()
        with Attempt(self._process, "taking the hooks of a step out"):
            self._patches.undo()
        if self._filter in warnings.filters:
            warnings.filters.remove(self._filter)  # type: ignore[attr-defined]

    # ------------------------------------------------------------------ the hooks

    def _timed(
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
            place = lambda: place_of(frames.users_frame()[0])  # noqa: E731

        def enter(args: Any, kwargs: Any) -> Call | None:
            found = _beyond(passed) if place is None else place()
            if of_tensor and found is None:
                self._library_calls(part, what, args[0])
                return None
            call = self._ledger.enter(part, what, found, id(args[0]) if part == "forward" else 0)
            if before is not None:
                before(call, args, kwargs)
            return call

        def make(original: Any) -> Any:
            def hook(*args: Any, **kwargs: Any) -> Any:
                if not (self._watches() and self._ledger.takes(part)):
                    return original(*args, **kwargs)
                call = self._guarded(enter, args, kwargs)
                try:
                    result = original(*args, **kwargs)
                except BaseException:
                    self._guarded(self._ledger.leave, call)
                    raise
                if call is not None and self._on:
                    self._guarded(self._ledger.leave, call)
                    if after is not None:
                        self._guarded(after, call, args, kwargs, result)
                return result

            return hook

        return make

    def _autocast(self, original: Any) -> Any:
        """The hook of `autocast.__enter__`: a region inside a forward counts as around it."""

        def __enter__(region: Any) -> Any:  # noqa: N807
            result = original(region)
            if self._on and self._ledger.open and self._ledger.open[-1].part == "forward":
                self._seen.region = region
            return result

        return __enter__

    def steps(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Before an optimizer's step; `args` has the optimizer first."""
        self.stepped(optimizer)  # of a step before, which has raised
        top = self._ledger.open[-1].what if self._ledger.open else ""
        if self._watches() and (top == SCALER or self._ledger.takes("optimizer")):
            self._guarded(self._steps, optimizer, args, kwargs)

    def _steps(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        call = self._ledger.enter("optimizer", "step", _beyond(self._folder), id(optimizer))
        self._seen.steps(call, args, kwargs)

    def stepped(self, optimizer: Any) -> None:
        """After an optimizer's step; it is not called where the step has raised."""
        if self._watches():
            for call in reversed(self._ledger.open):
                if call.what == "step" and call.of == id(optimizer):
                    self._guarded(self._ledger.leave, call)
                    return

    # ------------------------------------------------- what is told of single calls

    def _next_begins(self, call: Call, args: Any, kwargs: Any) -> None:
        """A loader is asked for a batch: what happens in it is no part of the step's.

        The driver says how long its loop waited; the wait for another loader's batch is
        input as well, unless it feeds an evaluation.
        """
        self._waits = call

    def _next_ends(self, call: Call, *_: Any) -> None:
        if self._waits is call and self._torch.is_grad_enabled():
            call.part = "input"

    def _moved(self, call: Call, args: Any, kwargs: Any, result: Any) -> None:
        """A copy between devices, and not to another dtype; to the host, it is waited for.

        `copy_` fills the tensor that it returns.
        """
        source = args[1] if call.what == "copy_" and len(args) > 1 else args[0]
        if getattr(source, "device", result.device) == result.device:
            call.part = ""
        elif result.device.type == "cpu":
            call.part = "sync"

    def _awaited(self, call: Call, args: Any, kwargs: Any) -> None:
        """Nobody waits for a tensor on the host, unless there is no other device at all."""
        if self._on_gpu and args[0].device.type == "cpu":
            call.part = ""

    def _watches(self) -> bool:
        mine = self._on and threading.get_ident() == self._main and not self._process.off
        return mine and not capturing()  # a graph's calls are written down, not done

    def _library_calls(self, part: str, what: str, tensor: Any) -> None:
        """A library reads a tensor: whether it waits for it, or would for that of a GPU."""
        waits = part == "sync" and tensor.device.type != "cpu"
        if waits or (part == "sync" and what != "cpu" and not self._on_gpu):
            self._ledger.read()

    def _guarded(self, act: Callable[..., Any], *args: Any) -> Any:
        """Do what is ours, while it is `on`; None where it fails."""
        try:
            return act(*args) if self._on else None
        except Exception as error:
            self._failed(error)
            return None


def _beyond(passed: str) -> Place | None:
    """Where the user's source calls what lies at `passed`; None if another library does."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((OWN, passed, "<")):
        frame = frame.f_back
    return place_of(frame)


class Patches:
    """Functions in place of PyTorch's; while TorchDynamo compiles, where it is imported, aside."""

    def __init__(self) -> None:
        self._made: list[tuple[Any, str, Any, Any]] = []  # with what `owner` itself had before
        self._handler: Any = None
        self._compiled = False

    def replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Put `make(original)` in place of `owner.name`, inherited or its own.

        A function of a module is replaced where the user's modules imported it by name as well.
        Where there is no such name, or it cannot be set, nothing is done.
        """
        original = getattr(owner, name, None)
        if original is None:
            return
        hook = functools.wraps(original)(make(original))
        places = [(owner, name)]
        if isinstance(owner, ModuleType):
            places += _imported(original)
        for holder, bound in places:
            own = original if bound in vars(holder) else None
            with suppress(TypeError, AttributeError):
                setattr(holder, bound, hook)
                self._made.append((holder, bound, own, hook))

    def listen(self) -> None:
        """Listen to compilations; PyTorch's optimizers import TorchDynamo with their first step."""
        callback: Any = sys.modules.get("torch._dynamo.callback")
        if callback is not None:
            self._handler = callback.callback_handler
            self._handler.register_start_callback(self._remove)
            self._handler.register_end_callback(self._back)

    def compiled(self) -> bool:
        """Whether anything was compiled since this was asked last."""
        before, self._compiled = self._compiled, False
        return before

    def undo(self) -> None:
        """Take everything out for good."""
        handler, self._handler = self._handler, None
        if handler is not None:
            with suppress(ValueError):  # torch.compiler.reset() has dropped them
                handler.remove_start_callback(self._remove)
                handler.remove_end_callback(self._back)
        self._remove()
        self._made.clear()

    def _remove(self, *_: Any) -> None:
        """Take everything out; what another has replaced since stays his."""
        self._compiled = True
        for owner, name, own, hook in reversed(self._made):
            if vars(owner).get(name) is hook:
                if own is not None:
                    setattr(owner, name, own)
                else:
                    delattr(owner, name)

    def _back(self, *_: Any) -> None:
        for owner, name, own, hook in self._made:
            if vars(owner).get(name) is own:
                setattr(owner, name, hook)


def _imported(function: Any) -> list[tuple[ModuleType, str]]:
    found = []
    for module in list(sys.modules.values()):
        names = vars(module) if isinstance(module, ModuleType) else {}
        if frames.is_users(str(names.get("__file__") or "")):
            found += [(module, name) for name, value in list(names.items()) if value is function]
    return found


# Where operations wait for a GPU, as CUDA's own debug mode tells while a few steps run.
#
# The hooks see what a tensor is asked for; the debug mode sees every operation that waits (a
# boolean mask, `nonzero`, a tensor made from a list), wherever it stands. PyTorch says so by a
# Python warning, in the frame that called.


class SyncWarnings:
    """Counts the operations that wait, by place, from `start` to `stop`.

    Nothing is done without CUDA, or where the program has set the mode itself: what it
    asked for stays. All other warnings go where they went; the filters are those of the
    program before and after, and no registry of what was warned of is touched.
    """

    def __init__(self, torch: Any, process: Guard) -> None:
        self.waits: Counter[Place] = Counter()
        self._torch = torch
        self._process = process
        self._step: Counter[Place] = Counter()
        self._main = threading.main_thread().ident
        self._filter = ("always", _MINE, Warning, None, 0)
        self._lists: list[Any] = []
        self._show: Any = None
        self._set = False

    def start(self) -> None:
        """Let PyTorch warn of each operation that waits, and take these warnings in."""
        cuda, module = self._torch.cuda, cast(Any, warnings)
        if not cuda.is_initialized() or cuda.get_sync_debug_mode() != _OFF:
            return
        # Not `warnings.filterwarnings`: it would make every warning of the program's that
        # was told once be told once more.
        module.filters.insert(0, self._filter)
        self._lists = [module.filters]
        self._show, module._showwarnmsg = module._showwarnmsg, self._take
        self._set = True
        cuda.set_sync_debug_mode("warn")

    def stop(self) -> None:
        """Put mode and filters back as they were; a mode that the program has set since stays."""
        was_set, self._set = self._set, False
        try:
            if was_set and self._torch.cuda.get_sync_debug_mode() == _WARN:
                self._torch.cuda.set_sync_debug_mode(_OFF)
        finally:
            module = cast(Any, warnings)
            if module._showwarnmsg == self._take:
                module._showwarnmsg = self._show
            for filters in (*self._lists, module.filters):  # `catch_warnings` works on a copy
                while self._filter in filters:
                    filters.remove(self._filter)

    def forked(self) -> None:
        """CUDA cannot be asked in a forked process; its mode is none of that process's."""
        self._set = False

    def step_ended(self, kept: bool) -> None:
        """A step is over; what waited in it counts if it is `kept`."""
        step, self._step = self._step, Counter()
        if kept:
            self.waits.update(step)

    def _take(self, message: Any) -> None:
        text = str(message.message)
        if not _MINE.match(text):
            self._show(message)
            return
        mine = threading.get_ident() == self._main and not self._process.off
        if text.startswith(_WAITS) and self._set and mine:
            with Attempt(self._process, "what waits for the GPU"):
                frame, _ = frames.users_frame()
                if frame is not None:
                    self._step[Place(frame.f_code, frame.f_lasti, frame.f_lineno)] += 1

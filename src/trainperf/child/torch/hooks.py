"""See training loops in PyTorch: loaders, backward calls, updates of optimizers.

What is set here costs a step a few µs in all. The calls inside a step are only looked
at while a few steps are taken apart (`step.detail`).
"""

from __future__ import annotations

import os
import re
import sys
import threading
import weakref
from types import FunctionType
from typing import TYPE_CHECKING, Any

from ..process import frames
from ..process.patching import after, around, before, replace, undo
from ..process.process import Attempt
from ..process.turns import Places
from . import devices, facts
from .built import places as built
from .loops import TorchLoops

if TYPE_CHECKING:
    from ..timing.loops import Loops

OLDEST = (2, 6)


def imported(loops: TorchLoops, module: Any) -> None:
    """Watch what is set for the whole of PyTorch, and backward calls."""
    version = str(module.__version__)
    if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < OLDEST:
        loops.process.note(f"PyTorch {version} is older than 2.6, the oldest that is tested")
    see_backward(loops, module)
    facts.watch_flags(loops, module)
    loops.training.retries = devices.retries


def see_backward(loops: TorchLoops, module: Any) -> None:
    """See the gradients being asked for; `module` is `torch`."""

    @around(loops.process, module.autograd, "backward")
    def backward(original: Any, tensors: Any, *args: Any, **kwargs: Any) -> Any:
        # Reentrant checkpointing asks for gradients within a backward.
        if loops.elsewhere() or loops.in_backward:
            return original(tensors, *args, **kwargs)
        loops.backward_begins(tensors)
        try:
            result = original(tensors, *args, **kwargs)
        except BaseException:
            loops.backward_failed()
            raise
        loops.backward_ended()
        return result


def watch_loaders(loops: TorchLoops, module: Any) -> None:
    from .loader import loaders

    around(loops.process, module._BaseDataLoaderIter, "__next__")(loops.batch)

    @around(loops.process, module.DataLoader, "__iter__", ours=True)
    def __iter__(original: Any, self: Any) -> Any:  # noqa: N807
        with Attempt(loops.process, "the folder of workers' sockets"):
            if getattr(self, "num_workers", 0):
                # Workers have their sockets in the folder of the process that starts
                # them, if it has one: ours is known, and removed when it is stopped.
                sys.modules["multiprocessing.util"].get_temp_dir()
        iterator = original(self)
        with Attempt(loops.process, "loader's iterator"):
            kept = getattr(self, "persistent_workers", False)  # it holds its iterator
            iterator._trainperf_dataset = weakref.ref(self) if kept else self
            if loops.process.settings.get("leg") is not None and hasattr(iterator, "_timeout"):
                iterator._timeout = 0  # while a leg is stopped, no batch can come in time
        return iterator

    replace(module.DataLoader, "__iter__", loops.opening)
    loaders.watch_places(loops, module)


def watch_optimizers(loops: TorchLoops, module: Any) -> None:
    """See the weights being updated."""

    # Set once: what stands in these hooks is asked for a boundary, and PyTorch does not
    # let hooks be added while they run.
    def steps(optimizer: Any, args: Any, kwargs: Any) -> None:
        if loops.detail is not None and not loops.passive():
            loops.detail.steps(optimizer, args, kwargs)

    def stepped(optimizer: Any, args: Any, kwargs: Any) -> None:
        if loops.process.off:
            return
        try:
            if loops.elsewhere():
                loops.stepped_by_engine(optimizer)
                return
            if loops.detail is not None:
                loops.detail.stepped(optimizer)
            loops.stepped(optimizer)
        except Exception as error:
            loops.process.failed("an update of the weights", error)

    module.register_optimizer_step_pre_hook(steps)
    module.register_optimizer_step_post_hook(stepped)
    built.watch_optimizers(loops, module)


def watch_schedules(loops: TorchLoops, module: Any) -> None:
    """Keep the last learning rate of a schedule that ends with the training, once it has.

    An epoch that we open again goes on beyond the steps that `OneCycleLR` was told of, where it
    raises; of a loop that nobody goes on with, it does so as ever.
    """

    @around(loops.process, module.OneCycleLR, "get_lr", ours=True)
    def get_lr(original: Any, self: Any) -> Any:
        driver = loops.training.driver
        if driver is not None and driver.epochs_ended and self.last_epoch > self.total_steps:
            return [group["lr"] for group in self.optimizer.param_groups]
        return original(self)


def watch_scalers(loops: TorchLoops, module: Any) -> None:
    """See updates that a scaler skips, and remember what a scaled loss was before.

    A skipped update is one of the loop all the same: its step took its time, and the losses
    of two legs are compared by its number, of which one may have skipped it.
    """

    @around(loops.process, module.GradScaler, "step")
    def step(original: Any, self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        before = loops.updates
        result = original(self, optimizer, *args, **kwargs)
        skipped = loops.updates == before and hasattr(optimizer, "param_groups")
        if skipped and not loops.passive():
            loops.stepped(optimizer)
        return result

    if loops.losses is None:
        return

    @around(loops.process, module.GradScaler, "scale", ours=True)  # legs compare losses, not scales
    def scale(original: Any, self: Any, outputs: Any) -> Any:
        scaled = original(self, outputs)
        if hasattr(outputs, "detach") and scaled is not outputs:
            scaled._trainperf_unscaled = outputs.detach()
        return scaled


def watch_modules(loops: TorchLoops, module: Any) -> None:
    built.watch_modules(loops, module)
    Evaluations(loops, module)


def watch_dynamo(loops: TorchLoops, module: Any) -> None:
    """Keep TorchDynamo out of our functions: it would compile them into the user's step."""
    module.add(__name__.rsplit(".", 2)[0])


def watch_compiling(loops: TorchLoops, module: Any) -> None:
    """Say of a leg that it compiles, as long as it does."""
    warm_up = loops.training.warm_up
    if warm_up is not None:
        module.callback_handler.register_start_callback(warm_up.compile_begins)
        module.callback_handler.register_end_callback(warm_up.compile_ends)


def watch_devices(loops: TorchLoops, module: Any) -> None:
    """Have a leg wait for its turn before it starts CUDA; PyTorch does that when it is needed."""
    warm_up = loops.training.warm_up
    if warm_up is not None:

        @around(loops.process, module, "_lazy_init", ours=True)
        def _lazy_init(original: Any) -> Any:
            warm_up.before_device()
            return original()


# Evaluations: from `model.eval()` to `model.train()`.


class Evaluations:
    """Records each time in which the model evaluates, and no weights are updated.

    `Module.train`, which a step may call, is watched only while a model evaluates; of the first
    evaluation at a line, whether autograd recorded its forwards is seen as well. A step that is
    evaluated in is no usual one: it is left out of the times of steps.
    """

    def __init__(self, loops: Loops, module: Any) -> None:
        self._loops = loops
        self._process = loops.process
        self._cls = module.Module
        self._began: float | None = None
        self._updates = 0
        self._places = Places()
        self._place: dict[str, Any] = {}
        self._hook: Any = None
        self._first: dict[str, Any] | None = None
        after(self._process, self._cls, "eval", "an evaluation", self._begin)

    def _begin(self, model: Any) -> None:
        if threading.get_ident() != self._loops.main:
            return
        if self._began is not None and self._updates == self._loops.updates:
            return  # one model after the other
        if self._places.is_new() and self._process.settings.get("leg") is None:
            self._forget()  # what never trained on
            self._watch_forward(model)
        self._place = self._places.here()
        self._updates = self._loops.updates
        if self._began is None:
            before(self._process, self._cls, "train", "an evaluation's end", self._trains)
        self._began = self._process.clock()

    def _trains(self, _: Any, mode: bool = True) -> None:
        """Training goes on; where it did so before, when the evaluation ended is not known."""
        if not mode or threading.get_ident() != self._loops.main:
            return
        undo(self._cls, "train")
        began, self._began = self._began, None
        first = self._forget()
        if began is None or self._updates != self._loops.updates:
            return
        if first is not None:
            self._process.record.write("torch_evaluation", **first)
        if self._loops.training.driver is not None:
            self._loops.training.driver.evaluated = True
        seconds = self._process.clock() - began
        self._process.record.write("evaluation", s=began, seconds=seconds, **self._place)

    def _watch_forward(self, model: Any) -> None:
        """See the next forward of a model: where it is called, with autograd or not.

        Where it is compiled, as what it calls then is, it is neither seen nor disturbed.
        """
        import torch

        compiled = type(model).__module__.startswith(("torch._dynamo", "torch.jit"))
        if compiled or getattr(model, "_compiled_call_impl", None) is not None:
            return

        def begins() -> None:
            self._hook.remove()
            wanted = any(weight.requires_grad for weight in model.parameters())
            self._first = {"where": frames.here(), "grad": torch.is_grad_enabled() and wanted}

        def hook(_model: Any, _arguments: Any) -> None:
            if not torch.compiler.is_compiling():  # else it is a part of another model
                begins()

        # A copy that TorchDynamo traces, where it refuses a hook that stands in a file of ours.
        code = hook.__code__.replace(co_filename="<trainperf>")
        traced = FunctionType(code, hook.__globals__, closure=hook.__closure__)
        self._hook = model.register_forward_pre_hook(traced)

    def _forget(self) -> dict[str, Any] | None:
        """The fields of `torch_evaluation`, None if no forward was called; see no more of it."""
        if self._hook is not None:
            self._hook.remove()
        found, self._first, self._hook = self._first, None, None
        return found


# TorchDynamo's own compilations, as they happen in the script: nothing is compiled or run for it.

COMPILES = ("compile", "fn")
"""Functions of PyTorch that the user called where he asked to compile something: `torch.compile`,
`Module.compile`, and what `torch.compile(dynamic=…)` returns to decorate a function with."""
LIMIT = re.compile(r"(recompile|cache_size)_limit|(recompile|cache) limit|cache size limit")
"""Stands in the reason of a failure where PyTorch compiles a function no more."""
SKIPS = re.compile(r"[Ss]kipping the (frame|function|rest of the function)|frame skipped")
"""Stands in the reason of a graph break after which a function runs without compiled code."""
IN_STACK = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
RESUMES = re.compile(r"^torch_dynamo_resume_in_(.+)_at_\d+$")
"""The name of the rest of a function behind a graph break."""
LONGEST_REASON = 200


def watch_calls(loops: Any, module: Any) -> None:
    """Note where the user compiles something; `module` is `torch._dynamo.eval_frame`."""

    process = loops.process

    def note(context: Any, function: Any) -> None:
        loops.compiles = True
        if loops.lines is not None:
            loops.lines.compiled()
        frame, called = frames.users_frame()
        if called in COMPILES:
            dynamic = getattr(context, "_dynamic", None)
            process.record.write("torch_compile_call", where=frames.site(frame), dynamic=dynamic)

    before(process, module.OptimizeContext, "__call__", "where something is compiled", note)


def watch_metrics(loops: Any, module: Any) -> None:
    """Note each compilation when it has ended; `module` is `torch._dynamo.utils`."""

    process = loops.process

    def note(start_ns: int, end_ns: int, metrics: dict[str, Any], *raised: Any) -> None:
        seconds = (end_ns - start_ns) / 1e9
        reason, name = str(metrics.get("recompile_reason") or ""), metrics.get("co_name") or ""
        own = metrics.get("co_filename") or "", metrics.get("co_firstlineno") or 0, name
        # The innermost line of the user's in the stack of the guard, or else the function's head.
        stack = (*reversed(IN_STACK.findall(reason)), own)
        users = (_place(*frame) for frame in stack if frames.is_users(frame[0]))
        process.record.write(
            "torch_compilation",
            s=process.clock() - seconds,
            d=seconds,
            # The guard that failed, without the number of the code before and its source behind it.
            reason=re.sub(r"^\d+/\d+: ", "", reason.partition("\n")[0])
            .partition("  # ")[0]
            .strip()[:LONGEST_REASON],
            where=next(users, None),
            function=RESUMES.sub(r"\1", name),
            limit=bool(LIMIT.search(str(metrics.get("fail_reason") or raised[-1:]))),
        )

    owner, name = module, "record_compilation_metrics"
    if hasattr(module, "_METRICS_CONTEXT"):  # PyTorch 2.6 has it for all threads, made by now
        owner, name = module._METRICS_CONTEXT, "_on_exit"
    before(process, owner, name, "what was compiled", note)


def _place(file: str, line: int | str, function: str) -> dict[str, Any]:
    name = RESUMES.sub(r"\1", function)
    return {"file": os.path.abspath(file), "line": int(line), "function": name}


def watch_breaks(loops: Any, module: Any) -> None:
    """Note graph breaks as they are logged; `module` is `torch._dynamo.symbolic_convert`."""
    import torch

    def note(*args: Any, **kwargs: Any) -> None:
        given = [*args, *kwargs.values()]
        told = [str(one) for one in given if isinstance(one, (str, BaseException))]
        error = next((one for one in given if isinstance(one, BaseException)), sys.exception())
        if error is None or not torch.is_grad_enabled():
            return
        stack = reversed(getattr(error, "real_stack", None) or ())
        inner = next((one for one in stack if frames.is_users(one.filename)), None)
        if inner is not None:
            loops.process.record.write(
                "torch_graph_break",
                reason=str(error).strip().partition("\n")[0][:LONGEST_REASON],
                where=_place(inner.filename, inner.lineno, inner.name),
                skips=any(SKIPS.search(one) for one in told),
            )

    owner = module.InstructionTranslatorBase
    if not hasattr(owner, "log_graph_break"):  # PyTorch 2.6 logs as it handles what ends the graph
        owner = module
    before(loops.process, owner, "log_graph_break", "where a graph breaks", note)

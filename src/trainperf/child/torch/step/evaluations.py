"""Time the evaluations of a PyTorch script: from `model.eval()` to `model.train()`."""

from __future__ import annotations

import threading
from types import FunctionType
from typing import TYPE_CHECKING, Any

from ...process import frames
from ...process.patching import Attempt, after, replace, undo
from ...process.turns import Places

if TYPE_CHECKING:
    from ...timing.loops import Loops


class Evaluations:
    """Records each time in which the model evaluates, and no weights are updated.

    `Module.train`, which a step may call, is watched only while a model evaluates; of the first
    evaluation at a line, whether autograd recorded its forwards is seen as well. A step that is
    evaluated in is no usual one: it is left out of the times of steps.
    """

    def __init__(self, loops: Loops, module: Any) -> None:
        self._loops = loops
        self._process = loops.process
        self._module = module
        self._main = threading.main_thread().ident
        self._began: float | None = None
        self._updates = 0
        self._places = Places()
        self._place: dict[str, Any] = {}
        self._forwards: _Forwards | None = None

    def watch(self) -> None:
        """Wait for a model to be put into evaluation mode."""
        after(self._process, self._module.Module, "eval", "an evaluation", self._begin)

    def _begin(self, model: Any) -> None:
        if threading.get_ident() != self._main:
            return
        if self._began is not None and self._updates == self._loops.updates:
            return  # one model after the other
        if self._places.is_new() and self._process.settings.get("leg") is None:
            self._forwards_seen()  # of one that never trained on
            self._forwards = _Forwards.of(model)
        self._place = self._places.here()
        self._updates = self._loops.updates
        if self._began is None:
            replace(self._module.Module, "train", self._make_train)
        self._began = self._process.clock()

    def _make_train(self, original: Any) -> Any:
        def train(self_: Any, mode: bool = True) -> Any:
            if mode and not self._process.off and threading.get_ident() == self._main:
                with Attempt(self._process, "the end of an evaluation"):
                    self._end()
            return original(self_, mode)

        return train

    def _end(self) -> None:
        """Training goes on; where it did so before, when the evaluation ended is not known."""
        undo(self._module.Module, "train")
        began, self._began = self._began, None
        found = self._forwards_seen()
        if found is not None and self._updates == self._loops.updates:
            self._process.record.write("torch_evaluation", **found)
        if began is None or self._updates != self._loops.updates:
            return
        if self._loops.training.driver is not None:
            self._loops.training.driver.evaluated = True
        self._process.record.write(
            "evaluation",
            s=began,
            seconds=self._process.clock() - began,
            **self._place,
        )

    def _forwards_seen(self) -> dict[str, Any] | None:
        forwards, self._forwards = self._forwards, None
        return forwards.seen() if forwards is not None else None


class _Forwards:
    """The first forward of a model in an evaluation: where it is called, with autograd or not.

    Where it is compiled, it is neither seen nor disturbed.
    """

    def __init__(self, model: Any) -> None:
        import torch

        self._first: dict[str, Any] | None = None
        begins = self._begins

        def hook(model: Any, _arguments: Any) -> None:
            if not torch.compiler.is_compiling():  # else it is a part of another model
                begins(model)

        self._hook = model.register_forward_pre_hook(_inlined(hook))

    @classmethod
    def of(cls, model: Any) -> _Forwards | None:
        """Watch a model; None for one that is compiled, as what it calls is compiled with it."""
        compiled = type(model).__module__.startswith(("torch._dynamo", "torch.jit"))
        if compiled or getattr(model, "_compiled_call_impl", None) is not None:
            return None
        return cls(model)

    def _begins(self, model: Any) -> None:
        import torch

        self._hook.remove()
        frame, _ = frames.users_frame()
        recorded = torch.is_grad_enabled() and any(one.requires_grad for one in model.parameters())
        self._first = {
            "where": frames.site(frame),
            "loop": None if frame is None else frames.definition(frame.f_code),
            "grad": recorded,
            "calls": 1,
        }

    def seen(self) -> dict[str, Any] | None:
        """End it; the fields of the event `torch_evaluation`, None where no forward was called."""
        self._hook.remove()
        return self._first


def _inlined(function: Any) -> Any:
    """A copy that TorchDynamo traces, where it refuses a hook that stands in a file of ours."""
    code = function.__code__.replace(co_filename="<trainperf>")
    return FunctionType(code, function.__globals__, closure=function.__closure__)

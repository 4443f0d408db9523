"""The matrix products of one step under autocast: which of them are in float32 all the same.

Beside them it sees losses that work on large tensors in float32, which autocast makes so.

They are watched below autocast, where each operator has the dtype it computes in, in
forward and backward alike. That costs each operator some µs of Python, so the step enters
no figure, and a model that was compiled is left alone.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from ...process import frames
from ...process.frames import Place, site
from ..compiling import graphs

MOST_PLACES = 8
LARGE = 2**22
"""Values from which a tensor in float32 (16 MiB) is no small loss: logits of a vocabulary."""
SOFTMAX = ("_log_softmax", "_log_softmax_backward_data")
CAST = "_to_copy"
NARROW = ("float16", "bfloat16")
WIDE = ("float32", "float64")


@dataclass(slots=True)
class Sum:
    """Calls of one kind in a step, in seconds; `flops` are values where nothing is multiplied."""

    seconds: float = 0.0
    flops: float = 0.0
    calls: int = 0

    def add(self, seconds: float, flops: float) -> None:
        self.seconds += seconds
        self.flops += flops
        self.calls += 1


@dataclass
class Products:
    """Sums over the products of one step; `wide` by place, module and part of the step.

    `part` says which part of the step it is now, `sync` waits for the device.
    """

    part: Callable[[], str]
    sync: Callable[[], None]
    clock: Callable[[], float] = time.perf_counter
    narrow: Sum = field(default_factory=Sum)
    wide: dict[tuple[Place | None, str, str], Sum] = field(default_factory=dict)
    losses: dict[tuple[Place | None, str, str], Sum] = field(default_factory=dict)
    fault: str = ""
    _mode: Any = None
    _registry: dict[Any, Callable[..., int]] = field(default_factory=dict)
    _formulas: dict[Any, Callable[..., int] | None] = field(default_factory=dict)
    _names: dict[int, dict[int, str]] = field(default_factory=dict)

    def start(self) -> bool:
        """Watch from here on, in this thread; whether that can be done here."""
        from torch.utils._python_dispatch import _get_current_dispatch_mode
        from torch.utils.flop_counter import flop_registry

        if graphs() or _get_current_dispatch_mode() is not None:
            # What was compiled may not be run under a mode; a mode of the program's, when it ends,
            # would take ours off in its place.
            return False
        self._registry = flop_registry
        self._mode = _watching(self)
        self._mode.__enter__()
        return True

    def stop(self) -> bool:
        """Watch no more. False if another's mode lies on top, which must be taken off first."""
        from torch.utils._python_dispatch import _get_current_dispatch_mode

        mode: Any = self._mode
        if mode is None:
            return True
        top: Any = _get_current_dispatch_mode()
        if top is not mode:
            self.fault = "another mode lay on top"  # ours lets everything through from here on
            return False
        mode.__exit__(None, None, None)
        self._mode = None
        return True

    def record(self, write: Callable[..., None]) -> None:
        """Write the events `torch_products` and `torch_wide_product`; none if nothing was seen."""
        if self.fault:
            reason = f"watching them failed: {self.fault}"
            write("missing", what="the products of a step", reason=reason)
            return
        if not (self.wide or self.narrow.calls or self.losses):
            return
        write(
            "torch_products",
            wide_s=sum(products.seconds for products in self.wide.values()),
            wide_flops=sum(products.flops for products in self.wide.values()),
            narrow_s=self.narrow.seconds,
            narrow_flops=self.narrow.flops,
        )
        _write_dearest(write, "torch_wide_product", self.wide)
        _write_dearest(write, "torch_wide_loss", self.losses)

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator; a product is timed and counted."""
        formula = self._formula(func)
        if self.fault or not (formula or _is_loss(func, args)) or self.part() == "optimizer":
            return func(*args, **kwargs)
        self.sync()
        began = self.clock()
        out = func(*args, **kwargs)
        try:
            self.sync()
            self._count(formula, args, kwargs, out, self.clock() - began)
        except Exception as error:
            self.fault = f"{type(error).__name__}: {error}"[:500]
        return out

    def _formula(self, func: Any) -> Callable[..., int] | None:
        """What counts the operations of a product, None of any other operator; the CPU's fused
        attention is counted as the GPU's."""
        packet = getattr(func, "overloadpacket", None)
        if packet not in self._formulas:
            name = str(getattr(packet, "__name__", ""))
            alike = getattr(func, "namespace", "") == "aten" and name.replace("_for_cpu", "")
            counted = (
                getattr(sys.modules["torch"].ops.aten, alike) if alike and alike != name else packet
            )
            self._formulas[packet] = self._registry.get(counted)
        return self._formulas[packet]

    def _count(self, formula: Any, args: Any, kwargs: Any, out: Any, seconds: float) -> None:
        if formula is None:
            if str(out.dtype) == "torch.float32":
                self._add(self.losses, seconds, float(out.numel()))
            return
        dtype, flops = _dtype(args), float(formula(*args, **kwargs, out_val=out))
        if dtype in NARROW:
            self.narrow.add(seconds, flops)
        elif dtype in WIDE:
            self._add(self.wide, seconds, flops)

    def _add(self, sums: dict[Any, Sum], seconds: float, flops: float) -> None:
        place, module = self._stands_in(sys._getframe(1))
        sums.setdefault((place, module, self.part()), Sum()).add(seconds, flops)

    def _stands_in(self, frame: FrameType | None) -> tuple[Place | None, str]:
        """Where the user's source called, and the name of the innermost module around it."""
        module: Any = sys.modules["torch.nn.modules.module"].Module
        call = module._call_impl.__code__
        users: Place | None = None
        around: list[Any] = []
        while frame is not None:
            code = frame.f_code
            if code is call:
                around.append(frame.f_locals["self"])
            elif users is None and frames.is_users(code.co_filename):
                users = Place(code, frame.f_lasti, frame.f_lineno)
            frame = frame.f_back
        if not around:
            return users, ""
        inner, outer = around[0], around[-1]
        if id(outer) not in self._names:
            self._names[id(outer)] = {id(one): name for name, one in outer.named_modules()}
        return users, self._names[id(outer)].get(id(inner), "") or type(inner).__name__


def _watching(products: Products) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]
        supports_higher_order_operators = True  # else PyTorch refuses `torch.cond` and the like

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return products.run(func, args, kwargs or {})

    return Watching()  # type: ignore[no-untyped-call]


def _write_dearest(write: Callable[..., None], kind: str, sums: dict[Any, Sum]) -> None:
    dearest = sorted(sums.items(), key=lambda each: -each[1].seconds)[:MOST_PLACES]
    for (place, module, part), one in dearest:
        fields = {"seconds": one.seconds, "flops": one.flops, "calls": one.calls}
        write(kind, where=site(place), module=module, part=part, **fields)


def _is_loss(func: Any, args: Any) -> bool:
    """Whether it takes the logarithm of a large softmax, or casts what is large to more digits."""
    name = func.overloadpacket.__name__ if getattr(func, "namespace", "") == "aten" else ""
    if (name not in SOFTMAX and name != CAST) or int(args[0].numel()) < LARGE:
        return False
    return name in SOFTMAX or str(args[0].dtype).removeprefix("torch.") in NARROW


def _dtype(args: Any) -> str:
    """The dtype of the factors: the last two tensors of the first arguments."""
    tensors = [one for one in args[:3] if hasattr(one, "dtype") and hasattr(one, "shape")]
    return str(tensors[-1].dtype).removeprefix("torch.") if tensors else ""

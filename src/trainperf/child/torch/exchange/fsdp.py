"""FSDP's exchange in a step, counted, and left out for a while.

Neither kind of FSDP can leave its exchange out by itself: under `no_sync` the gradients
stay whole on every rank, which the optimizer cannot apply, and parameters are gathered all
the same. So its collectives are called as ever, and while `off` they are stood in for: a
gathered parameter is the rank's own shard over and over, a reduced gradient is 0. Shapes,
memory, streams and the order of the calls are those of the loop; the weights are hardly
touched, and nothing has to be put back. Only FSDP's own calls are stood in for, and the
sums of lists of numbers that `DTensor` makes, as for the norm of the gradients: a rank
would wait for the others in them.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from ...process.patching import replace, undo
from ..graphs import capturing
from .gradient_sums import done

GATHER, SCATTER, SUM = "gather", "scatter", "sum"
CALLS = {
    "all_gather": GATHER,
    "all_gather_into_tensor": GATHER,
    "all_gather_single": GATHER,
    "reduce_scatter_tensor": SCATTER,
    "reduce_scatter_single": SCATTER,
    "all_reduce": SUM,
}
"""Of `torch.distributed`; of the two names of a call the later is PyTorch's since 2.13."""
CALLERS = (
    "torch.distributed.fsdp._flat_param",
    "torch.distributed.fsdp._fully_shard._fsdp_collectives",
    "torch.distributed.fsdp._runtime_utils",
    "torch.distributed.fsdp.fully_sharded_data_parallel",
    "torch.distributed.fsdp.sharded_grad_scaler",
    "torch.distributed.algorithms._comm_hooks.default_hooks",
)
"""The modules of PyTorch that make the calls of a step, each by its global `dist`."""
LOOKED_AT = 15
"""The usual step is the most frequent one of so many."""
MOST = 10_000
"""Of more calls than these in a step nothing is kept."""
UNSEEN = "no exchange of gradients by FSDP was seen in a step (compiled, or by a hook of its own)"


class Collectives:
    """Those of FSDP in a process. `whole` is whether all of them were among all ranks."""

    def __init__(self, loops: Any) -> None:
        self._loops = loops
        self.off = False
        self.whole = True
        self.dtype: Any = None
        self._steps: deque[tuple[tuple[str, int], ...]] = deque(maxlen=LOOKED_AT)
        self._current: list[tuple[str, int]] = []

    def watch(self) -> None:
        """Hook those of the modules that were imported by now; no call but FSDP's is seen."""
        self._loops.shards = self
        dist: Any = sys.modules["torch.distributed"]
        for name in CALLERS:
            module: Any = sys.modules.get(name)
            if getattr(module, "dist", None) is dist:
                module.dist = _Watched(dist, self)

    def unhook(self) -> None:
        """Leave the modules as PyTorch has them."""
        self.switch(off=False)
        for name in CALLERS:
            module: Any = sys.modules.get(name)
            watched = getattr(module, "dist", None)
            if isinstance(watched, _Watched):
                module.dist = watched.original

    def switch(self, off: bool) -> None:
        """Stand in for them from the next call on, or leave them alone again."""
        functional: Any = sys.modules.get("torch.distributed._functional_collectives")
        if off != self.off and self._steps and hasattr(functional, "all_reduce"):
            if off:  # not before: TorchDynamo knows the function, where it compiles a step
                replace(functional, "all_reduce", self._make_norm)
            else:
                undo(functional, "all_reduce")
        self.off = off

    def step_begins(self) -> None:
        """Put the calls since the last step down to that one."""
        if self._current and not self.off:
            self._steps.append(tuple(self._current))
        self._current = []

    def of_step(self, *kinds: str) -> list[int]:
        """The bytes of each such call in the usual step; those of whole parameters, gradients."""
        if not self._steps:
            return []
        usual = Counter(self._steps).most_common(1)[0][0]
        return [size for kind, size in usual if kind in kinds]

    def called(self, kind: str, original: Any, args: Any, kwargs: Any) -> Any:
        """FSDP calls `original`; backward does so from threads of its own on a GPU."""
        if self._loops.process.off or capturing():
            return original(*args, **kwargs)
        try:
            if self.off:
                return _stand_in(kind, args, kwargs)
            self._count(kind, args, kwargs)
        except Exception as error:
            self._loops.process.failed("what FSDP exchanges", error)
        return original(*args, **kwargs)

    # -------------------------------------------------------------------- internal

    def _make_norm(self, original: Any) -> Any:
        def all_reduce(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._loops.process.off and tensor.dim() < 2:
                return tensor
            return original(tensor, *args, **kwargs)

        return all_reduce

    def _count(self, kind: str, args: Any, kwargs: Any) -> None:
        if len(self._current) >= MOST:
            return
        one = _whole(kind, args, kwargs)
        many = one if isinstance(one, (list, tuple)) else (one,)
        size = sum(each.numel() * each.element_size() for each in many)
        if kind == SUM and many[0].numel() == 1:
            return  # a norm, or whether a gradient is infinite
        if kind != GATHER:
            self.dtype = many[0].dtype
        dist: Any = sys.modules["torch.distributed"]
        group = _given(args, kwargs, {GATHER: 2, SCATTER: 3, SUM: 2}[kind], "group")
        self.whole = self.whole and dist.get_world_size(group) == dist.get_world_size()
        self._current.append((kind, size))


class _Watched:
    """`torch.distributed` as a module of FSDP has it: its calls of `CALLS` are ours."""

    def __init__(self, original: Any, found: Collectives) -> None:
        self.original = original
        for name, kind in CALLS.items():
            if hasattr(original, name):
                setattr(self, name, _through(found, kind, name, original))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)


def _through(found: Collectives, kind: str, name: str, module: Any) -> Callable[..., Any]:
    def collective(*args: Any, **kwargs: Any) -> Any:
        return found.called(kind, getattr(module, name), args, kwargs)

    return collective


def collectives(loops: Any) -> Collectives:
    """Those of a process, made at the first call."""
    if loops.shards is None:
        loops.shards = Collectives(loops)
    there: Collectives = loops.shards
    return there


def counted(loops: Any) -> Collectives | None:
    """Those of a process in which FSDP was seen to exchange gradients."""
    found: Collectives | None = loops.shards
    return found if found is not None and found.of_step(SCATTER, SUM) else None


def _given(args: Any, kwargs: Any, position: int, *names: str) -> Any:
    if len(args) > position:
        return args[position]
    return next((kwargs[name] for name in names if name in kwargs), None)


def _whole(kind: str, args: Any, kwargs: Any) -> Any:
    """The tensor of a call that is as large as the whole, or the list of its parts."""
    if kind == GATHER:
        return _given(args, kwargs, 0, "output_tensor", "tensor_list")
    if kind == SCATTER:
        return _given(args, kwargs, 1, "input", "input_tensor")
    return _given(args, kwargs, 0, "tensor")


def _stand_in(kind: str, args: Any, kwargs: Any) -> Any:
    """Do what the call would have done with nobody else there."""
    torch: Any = sys.modules["torch"]
    output = _given(args, kwargs, 0, "output_tensor", "tensor_list", "output", "tensor")
    with torch.no_grad():
        if kind == GATHER:
            own = _given(args, kwargs, 1, "input_tensor", "tensor")
            parts = (
                output
                if isinstance(output, (list, tuple))
                else output.view(-1).split(max(1, own.numel()))
            )
            for part in parts:
                if part.data_ptr() != own.data_ptr():  # FSDP may gather in place
                    part.view(-1).copy_(own.reshape(-1))
        elif kind == SCATTER:
            output.zero_()
    position = 4 if kind == SCATTER else 3
    return done(output) if _given(args, kwargs, position, "async_op") else None

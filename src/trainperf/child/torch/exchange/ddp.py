"""`DistributedDataParallel` in a loop: how it was built, when it exchanges.

Its `__init__` is hooked at import, its `forward` once there is one: a process without
any pays nothing. A forward costs about 1 µs more. DDP decides in its forward whether the
backward that follows exchanges gradients (as `no_sync` says of itself), so that is where
the exchange is switched off: the user's own settings and `no_sync` stay what they are.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from typing import Any

from ...process import frames
from ...process.patching import after, replace, undo


class WatchedDdp:
    """A `DistributedDataParallel` and what was seen of it.

    `unused` is how many parameters had no gradient in an update, the most of those that
    were looked at.
    """

    def __init__(self, ddp: Any, where: dict[str, Any] | None, given: tuple[str, ...]) -> None:
        self.reference = weakref.ref(ddp)
        self.where = where
        self.given = given
        self.updates = 0
        self.micro_steps = 0
        self.synced = 0
        self.unused: int | None = None
        self.times = Times()
        self._pending: bool | None = None
        self._since = [0, 0]

    def called(self, synced: bool) -> None:
        """A forward with gradients: the backward after it exchanges, or does not."""
        self._pending = synced

    def backward(self) -> None:
        """Gradients are asked for; that counts once for each forward."""
        if self._pending is not None:
            self._since[0] += 1
            self._since[1] += self._pending
            self._pending = None

    def stepped(self, look: bool) -> None:
        """An optimizer updated its parameters; what came before the first is left out."""
        if not self._since[0]:
            return
        self.updates += 1
        self.micro_steps += self._since[0]
        self.synced += self._since[1]
        self._since = [0, 0]
        if look or self.updates & (self.updates - 1) == 0:
            self._look()

    def _look(self) -> None:
        ddp = self.reference()
        wanted = parameters(ddp) if ddp is not None else []
        without = sum(one.grad is None for one in wanted)
        if without < len(wanted):  # none has any where backward itself updates
            self.unused = max(without, self.unused or 0)


class Ddps:
    """All of them in this process. While `off`, none exchanges anything in its steps."""

    def __init__(self, loops: Any) -> None:
        self._loops = loops
        self._ones: dict[int, WatchedDdp] = {}
        self._trained_by: dict[int, tuple[Any, int, list[WatchedDdp]]] = {}
        self._hooked: Any = None
        self.off = False

    @property
    def alive(self) -> list[tuple[Any, WatchedDdp]]:
        """Those that are still there, in the order they were built."""
        found = [(one.reference(), one) for one in self._ones.values()]
        return [(ddp, one) for ddp, one in found if ddp is not None]

    @property
    def hooked(self) -> bool:
        """Whether forwards are seen."""
        return bool(self._hooked)

    def overridden(self, ddp: Any) -> bool:
        """Whether a subclass has a forward of its own, which may leave DDP's out."""
        return bool(self._hooked and type(ddp).forward is not self._hooked.forward)

    # ------------------------------------------------------------ from the hooks

    def built(self, ddp: Any, signature: inspect.Signature, args: Any, kwargs: Any) -> None:
        given = signature.bind_partial(ddp, *args, **kwargs).arguments
        names = tuple(name for name in given if name not in ("self", "module"))
        self._ones[id(ddp)] = WatchedDdp(ddp, _where(ddp), names)
        if getattr(ddp, "_use_python_reducer", False):
            self.unhook()  # TorchDynamo traces through its forward
        elif self._hooked is None:
            self._hooked = sys.modules["torch.nn.parallel.distributed"].DistributedDataParallel
            replace(self._hooked, "forward", self._forward)

    def unhook(self) -> None:
        """Leave `forward` as PyTorch has it."""
        if self._hooked:
            undo(self._hooked, "forward")
        self._hooked = False

    def backward(self) -> None:
        for one in self._ones.values():
            one.backward()

    def stepped(self, optimizer: Any) -> None:
        if not self._ones:
            return
        look = self._loops.detail is not None
        for one in self._of(optimizer):
            one.stepped(look)

    def _of(self, optimizer: Any) -> list[WatchedDdp]:
        known = self._trained_by.get(id(optimizer))
        if known is None or known[0]() is not optimizer or known[1] != len(self._ones):
            ids = {id(one) for group in optimizer.param_groups for one in group["params"]}
            found = [
                one for ddp, one in self.alive if any(id(each) in ids for each in parameters(ddp))
            ]
            known = weakref.ref(optimizer), len(self._ones), found
            self._trained_by[id(optimizer)] = known
        return known[2]

    def _forward(self, original: Any) -> Any:
        loops, grad = self._loops, sys.modules["torch"].is_grad_enabled

        def forward(ddp: Any, *inputs: Any, **kwargs: Any) -> Any:
            if loops.passive():
                return original(ddp, *inputs, **kwargs)
            one = self._one(ddp)
            state = ddp.__dict__
            wanted = state["require_backward_grad_sync"]
            if grad():
                one.called(wanted)
            if self.off:
                return self._without_exchange(original, ddp, inputs, kwargs)
            output = original(ddp, *inputs, **kwargs)
            if loops.detail is not None or one.times.each_step:
                self._sample(ddp, one.times)
            return output

        return forward

    def _without_exchange(self, original: Any, ddp: Any, inputs: Any, kwargs: Any) -> Any:
        state = ddp.__dict__
        names = "require_backward_grad_sync", "require_forward_param_sync"
        before = [state[name] for name in names]
        state.update(dict.fromkeys(names, False))
        try:
            return original(ddp, *inputs, **kwargs)
        finally:
            state.update(zip(names, before, strict=True))

    def _one(self, ddp: Any) -> WatchedDdp:
        one = self._ones.get(id(ddp))
        if one is None or one.reference() is not ddp:  # a copy, or one that was unpickled
            one = self._ones[id(ddp)] = WatchedDdp(ddp, None, ())
            self._trained_by.clear()
        return one

    def _sample(self, ddp: Any, times: Times) -> None:
        try:
            times.sample(ddp, each_step=self._loops.detail is not None)
        except Exception as error:
            times.each_step = False
            self._loops.process.failed("DDP's own times", error)


def watch(loops: Any, module: Any) -> None:
    """Note where each is built; `module` is `torch.nn.parallel.distributed`."""
    cls, known = module.DistributedDataParallel, ddps(loops)
    signature = inspect.signature(cls.__init__)

    def built(ddp: Any, *args: Any, **kwargs: Any) -> None:
        known.built(ddp, signature, args, kwargs)

    after(loops.process, cls, "__init__", "where a DistributedDataParallel is built", built)


def ddps(loops: Any) -> Ddps:
    """Those of a process, made at the first call."""
    if loops.ddps is None:
        loops.ddps = Ddps(loops)
    there: Ddps = loops.ddps
    return there


def _where(ddp: Any) -> dict[str, Any] | None:
    """The user's call that builds it; without its extent where a library makes the call."""
    frame, called = frames.users_frame(ddp)
    found = frames.site(frame)
    if found is None or called == "__init__":
        return found
    return {name: found[name] for name in ("file", "line", "function")}


# DDP's own log, and the times it takes: of backward and of the exchange in it.


SAMPLED_USUALLY = 100
"""DDP times its first ten steps and each of so many (`kDDPRuntimeLoggingSampleRate`)."""
WARMING_UP = 10

Sample = tuple[float, float, float]


class Times:
    """DDP's times of the steps that are taken apart, while it is asked for each of them.

    `samples` are the seconds of a backward, of its exchange, and of both at once.
    """

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self.each_step = False
        self._iteration: Any = None
        self._half = False

    def sample(self, ddp: Any, each_step: bool) -> None:
        """Take the times of the last step; called after a forward.

        The first call with another `each_step` only tells DDP which steps to time; it
        began to time the step in which that is, between forward and backward, long before.
        """
        data = logged(ddp)
        if self.each_step != each_step:
            ddp._set_ddp_runtime_logging_sample_rate(1 if each_step else SAMPLED_USUALLY)
            self.each_step = self._half = each_step
        elif data.get("iteration") != self._iteration:
            times = last(data)
            if times is not None and not self._half:
                self.samples.append(times)
            self._half = False
        self._iteration = data.get("iteration")

    def overlap(self, ddp: Any, exchanges: float) -> dict[str, Any] | None:
        """The fields of `Overlap`, for an update with so many exchanges; None if unknown.

        Where no step was taken apart, they are of the one that DDP timed last by itself,
        if that is past its first ten.
        """
        samples = list(self.samples)
        if not samples:
            data = logged(ddp)
            times = last(data)
            if times is None or data.get("iteration", 0) <= WARMING_UP:
                return None
            samples = [times]
        compute, exchange, both = (
            exchanges * sum(each) / len(samples) for each in zip(*samples, strict=True)
        )
        return {
            "compute_s": compute,
            "exchange_s": exchange,
            "overlap_s": both,
            "steps": len(samples),
        }


def logged(ddp: Any) -> dict[str, Any]:
    return dict(ddp._get_ddp_logging_data()) if ddp.logger is not None else {}


def last(data: dict[str, Any]) -> Sample | None:
    """Seconds of backward, exchange, and both at once, of the step DDP timed last."""
    names = "backward_compute_time", "backward_comm_time", "backward_compute_comm_overlap_time"
    found = [data.get(name) for name in names]
    compute, exchange, both = (None if one is None else one / 1e9 for one in found)
    if not compute or not exchange or both is None or min(compute, exchange, both) < 0:
        return None
    return compute, exchange, both


def parameters(ddp: Any) -> list[Any]:
    """The parameters whose gradients it exchanges."""
    held = ddp.__dict__.get("_module_parameters")
    return [one for one in (ddp.parameters() if held is None else held) if one.requires_grad]


# What a DDP says of itself: settings, buckets, unused parameters.


MIB = 1024**2

HALVING = {"fp16_compress_hook": 2, "bf16_compress_hook": 2, "FP16_COMPRESS": 2}
"""Communication hooks that send gradients in half of float32's bytes, by their names."""
SAME = ("allreduce_hook", "ALLREDUCE")
"""Those that send what would be sent without them."""


def facts(ddp: Any, one: WatchedDdp) -> dict[str, Any]:
    """The fields of `Ddp` for one of them."""
    data = logged(ddp)
    per_update = one.updates or None
    return {
        "model": type(ddp.module).__name__,
        "where": one.where,
        "settings": settings(ddp, data),
        "given": list(one.given),
        "comm_hook": comm_hook(ddp, data),
        "unused": unused(one, data),
        "graph_is_static": graph_is_static(ddp, data),
        "micro_steps": one.micro_steps / per_update if per_update else None,
        "synced": one.synced / per_update if per_update else None,
    }


def settings(ddp: Any, data: dict[str, Any]) -> dict[str, Any]:
    """The effective values of the keywords, `bucket_cap_mb` in MiB; whether inside of `Join`."""
    cap = data.get("bucket_cap_bytes", getattr(ddp, "bucket_bytes_cap", None))
    found = {
        "find_unused_parameters": getattr(ddp, "find_unused_parameters", None),
        "gradient_as_bucket_view": getattr(ddp, "gradient_as_bucket_view", None),
        "static_graph": getattr(ddp, "static_graph", None),
        "bucket_cap_mb": None if cap is None else cap / MIB,
        "mixed_precision": getattr(ddp, "mixed_precision", None) is not None,
        "join": bool(getattr(getattr(ddp, "_join_config", None), "enable", False)),
    }
    return {name: value for name, value in found.items() if value is not None}


def comm_hook(ddp: Any, data: dict[str, Any]) -> str:
    """The name of the communication hook that was registered, "" if none was."""
    hooks = getattr(ddp, "_comm_hooks", None) or []
    if hooks:
        hook = hooks[-1][0]
        return str(getattr(hook, "__qualname__", type(hook).__name__))
    return str(data.get("comm_hook", ""))


def unused(one: WatchedDdp, data: dict[str, Any]) -> int | None:
    """How many parameters got no gradient: at least so many, None if not looked at.

    DDP's own search says that there were some even where another rank had gradients for
    them; how many is not in its logging.
    """
    if data.get("unused_parameter_size", 0) > 0:
        return max(one.unused or 0, 1)
    return one.unused


def graph_is_static(ddp: Any, data: dict[str, Any]) -> bool | None:
    """Whether the same parameters were unused in every step.

    DDP compares only where it searches for unused ones: elsewhere nobody knows (None).
    """
    if not getattr(ddp, "find_unused_parameters", False) or getattr(ddp, "static_graph", False):
        return None
    return bool(ddp.reducer._ddp_graph_static()) if data.get("iteration", 0) >= 2 else None


def sent(ddp: Any) -> tuple[int | None, list[int]]:
    """Bytes of gradients that leave a replica in an exchange, and those of each bucket.

    (None, []) where a communication hook of the user's own decides what is sent.
    """
    data = logged(ddp)
    hook = comm_hook(ddp, data)
    if hook and hook not in SAME and hook not in HALVING:
        return None, []
    of = [one.numel() * one.element_size() for one in parameters(ddp)]
    named = data.get("rebuilt_bucket_sizes") or data.get("bucket_sizes") or ""
    buckets = [int(word) for word in str(named).replace(",", " ").split()]
    if sum(buckets) != sum(of):
        buckets = [sum(of)]
    share = HALVING.get(hook, 1)
    return sum(of) // share, [one // share for one in buckets]


def overlap(ddp: Any, one: WatchedDdp) -> dict[str, Any] | None:
    """The fields of `Overlap`, seconds per update."""
    return one.times.overlap(ddp, one.synced / one.updates if one.updates else 1.0)

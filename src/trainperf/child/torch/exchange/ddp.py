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
from ...process.patching import after, around

MIB = 1024**2
SAME = ("", "allreduce_hook", "ALLREDUCE")
"""Communication hooks that send what would be sent without them."""
SWITCHES = ("require_backward_grad_sync", "require_forward_param_sync")


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
        self.pending: bool | None = None  # whether the backward of its last forward exchanges
        self._since = [0, 0]

    def backward(self) -> None:
        """Gradients are asked for; that counts once for each forward."""
        if self.pending is not None:
            self._since[0] += 1
            self._since[1] += self.pending
            self.pending = None

    def stepped(self, look: bool) -> None:
        """An optimizer updated its parameters; what came before the first is left out."""
        if not self._since[0]:
            return
        self.updates += 1
        self.micro_steps += self._since[0]
        self.synced += self._since[1]
        self._since = [0, 0]
        if look or self.updates & (self.updates - 1) == 0:
            ddp = self.reference()
            wanted = parameters(ddp) if ddp is not None else []
            without = sum(weight.grad is None for weight in wanted)
            if without < len(wanted):  # none has any where backward itself updates
                self.unused = max(without, self.unused or 0)

    @property
    def exchanges(self) -> float:
        """How often it exchanges for an update."""
        return self.synced / self.updates if self.updates else 1.0


class Ddps:
    """All of them in this process. While `off`, none exchanges anything in its steps."""

    def __init__(self, loops: Any) -> None:
        self._loops = loops
        self._watched: dict[int, WatchedDdp] = {}
        self._trained_by: dict[int, tuple[Any, int, list[WatchedDdp]]] = {}
        self._hooked = False
        self.off = False

    @property
    def alive(self) -> list[tuple[Any, WatchedDdp]]:
        """Those that are still there, in the order they were built."""
        found = [(watched.reference(), watched) for watched in self._watched.values()]
        return [(ddp, watched) for ddp, watched in found if ddp is not None]

    def built(self, ddp: Any, given: tuple[str, ...]) -> None:
        """One is built; its place is without an extent where a library makes the call."""
        frame, called = frames.users_frame(ddp)
        where = frames.site(frame)
        if where is not None and called != "__init__":
            where = {name: where[name] for name in ("file", "line", "function")}
        self._watched[id(ddp)] = WatchedDdp(ddp, where, given)
        if not self._hooked:
            self._hooked = True
            cls = sys.modules["torch.nn.parallel.distributed"].DistributedDataParallel
            around(self._loops.process, cls, "forward")(self._forward)

    def backward(self) -> None:
        for watched in self._watched.values():
            watched.backward()

    def stepped(self, optimizer: Any) -> None:
        if not self._watched:
            return
        known = self._trained_by.get(id(optimizer))
        if known is None or known[0]() is not optimizer or known[1] != len(self._watched):
            ids = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
            found = [
                watched
                for ddp, watched in self.alive
                if any(id(weight) in ids for weight in parameters(ddp))
            ]
            known = weakref.ref(optimizer), len(self._watched), found
            self._trained_by[id(optimizer)] = known
        for watched in known[2]:
            watched.stepped(look=self._loops.detail is not None)

    def _forward(self, original: Any, ddp: Any, /, *inputs: Any, **kwargs: Any) -> Any:
        if self._loops.passive():
            return original(ddp, *inputs, **kwargs)
        watched, state = self._watched.get(id(ddp)), ddp.__dict__
        if watched is None or watched.reference() is not ddp:  # a copy, or one unpickled
            watched = self._watched[id(ddp)] = WatchedDdp(ddp, None, ())
            self._trained_by.clear()
        if sys.modules["torch"].is_grad_enabled():
            watched.pending = state["require_backward_grad_sync"]
        if not self.off:
            return original(ddp, *inputs, **kwargs)
        before = {name: state[name] for name in SWITCHES}
        state.update(dict.fromkeys(SWITCHES, False))
        try:
            return original(ddp, *inputs, **kwargs)
        finally:
            state.update(before)


def watch(loops: Any, module: Any) -> None:
    """Note where each is built; `module` is `torch.nn.parallel.distributed`."""
    cls = module.DistributedDataParallel
    signature = inspect.signature(cls.__init__)

    def built(*args: Any, **kwargs: Any) -> None:
        given = signature.bind_partial(*args, **kwargs).arguments
        loops.ddps.built(args[0], tuple(name for name in given if name not in ("self", "module")))

    after(loops.process, cls, "__init__", "where a DistributedDataParallel is built", built)


def logged(ddp: Any) -> dict[str, Any]:
    return dict(ddp._get_ddp_logging_data()) if ddp.logger is not None else {}


def parameters(ddp: Any) -> list[Any]:
    """The parameters whose gradients it exchanges."""
    return [weight for weight in ddp._module_parameters if weight.requires_grad]


def facts(ddp: Any, watched: WatchedDdp) -> dict[str, Any]:
    """The fields of `Ddp`: the effective settings of one, and what was seen of it.

    `graph_is_static` says that the same parameters were unused in every step: DDP compares only
    where it searches for unused ones, elsewhere nobody knows (None). DDP's search says that there
    were some even where another rank had gradients for them; how many is not in its logging.
    """
    data = logged(ddp)
    static, unused = None, watched.unused
    if ddp.find_unused_parameters and not ddp.static_graph and data.get("iteration", 0) >= 2:
        static = bool(ddp.reducer._ddp_graph_static())
    if data.get("unused_parameter_size", 0) > 0:
        unused = max(unused or 0, 1)
    return {
        "model": type(ddp.module).__name__,
        "where": watched.where,
        "settings": {
            "find_unused_parameters": ddp.find_unused_parameters,
            "gradient_as_bucket_view": ddp.gradient_as_bucket_view,
            "static_graph": ddp.static_graph,
            "bucket_cap_mb": data.get("bucket_cap_bytes", ddp.bucket_bytes_cap) / MIB,
            "mixed_precision": ddp.mixed_precision is not None,
        },
        "given": list(watched.given),
        "comm_hook": comm_hook(ddp, data),
        "unused": unused,
        "graph_is_static": static,
        "micro_steps": watched.micro_steps / watched.updates if watched.updates else None,
        "synced": watched.exchanges if watched.updates else None,
    }


def comm_hook(ddp: Any, data: dict[str, Any]) -> str:
    """The name of the communication hook that was registered, "" if none was."""
    if ddp._comm_hooks:
        hook = ddp._comm_hooks[-1][0]
        return str(getattr(hook, "__qualname__", type(hook).__name__))
    return str(data.get("comm_hook", ""))


def sent(ddp: Any) -> tuple[int | None, list[int]]:
    """Bytes of gradients that leave a replica in an exchange, and those of each bucket.

    (None, []) where a communication hook decides what is sent.
    """
    data = logged(ddp)
    if comm_hook(ddp, data) not in SAME:
        return None, []
    whole = sum(weight.nbytes for weight in parameters(ddp))
    named = data.get("rebuilt_bucket_sizes") or data.get("bucket_sizes") or ""
    buckets = [int(word) for word in str(named).replace(",", " ").split()]
    if sum(buckets) != whole:
        buckets = [whole]
    return whole, buckets

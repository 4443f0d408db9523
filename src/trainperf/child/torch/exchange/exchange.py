"""The exchange of gradients between processes: switched off for a while, and recorded.

Also models that are spread over devices by other means, and checkpoints.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections import Counter
from dataclasses import dataclass
from typing import Any

from ...process import frames
from ...process.patching import after, around
from ...process.process import Attempt
from ...process.turns import Places
from ..built import models
from . import ddp as torch_ddp

MOST = 4
"""Of so many `DistributedDataParallel` modules there are events."""
BY_HAND = "all_reduce in the loop"
SHARDED = ("FullyShardedDataParallel", "fully_shard")
FSDP = "the exchange of FSDP's shards is not observed: it cannot be left out of a step"
UNSEEN = "no forward of DistributedDataParallel was seen before an update"
LOOKS = 3
"""So many updates with all-reduces before them are looked at."""
MOST_CALLS = 100_000
"""Of more calls than these before the first update nothing is kept."""


@dataclass
class Saves:
    """Checkpoints that were written in the loop: how many, and where the first of them.

    One that is `under_way` is written in as many calls as it takes.
    """

    count: int = 0
    where: dict[str, Any] | None = None
    under_way: bool = False


class Exchange:
    """Switches the exchange of gradients of this process off and on, at step boundaries.

    While off, ranks train apart: their weights differ from then on. DDP's broadcast of
    buffers and its search for unused parameters are off with it, as in `no_sync`;
    SyncBatchNorm's statistics are exchanged all the same. All ranks must switch at the same step.
    """

    def __init__(self, loops: Any) -> None:
        self._loops = loops

    def off(self) -> str:
        """Exchange nothing from the next forward on; return "" or why that cannot be."""
        if method(self._loops) in SHARDED:
            return FSDP
        found = self._loops.ddps.alive
        if found and not any(watched.updates for _, watched in found):
            return UNSEEN  # a subclass has its own, or a static graph is not known yet
        self._loops.ddps.off = self._loops.sums.off = True
        modules = (module for ddp, _ in found for module in ddp.modules())
        if any(type(module).__name__ == "SyncBatchNorm" for module in modules):
            self._loops.process.note(
                "SyncBatchNorm exchanges its statistics in the forward pass: "
                "that is not in the times of the exchange of gradients"
            )
        return ""

    def on(self) -> None:
        """Exchange as the loop does by itself."""
        self._loops.ddps.off = self._loops.sums.off = False


class Sums:
    """The all-reduces of the user's own loop: `dist.all_reduce(p.grad)`.

    Which calls are of gradients is found out by their memory at an update, for the first few
    updates with such calls; `sizes` are bytes of those in a step. While the exchange is `off`,
    they return at once, done.
    """

    def __init__(self, loops: Any) -> None:
        self._loops = loops
        self.off = False
        self.sizes: list[int] = []
        self._called: list[tuple[int, int]] = []
        self._looks = 0
        self._gradients: set[int] | None = None

    def reduce(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        """Make a call of `all_reduce`."""
        if self._loops.passive():
            return original(*args, **kwargs)
        tensor: Any = args[0] if args else kwargs.get("tensor")
        if self.off and self._is_gradient(tensor):
            asynchronous = args[3] if len(args) > 3 else kwargs.get("async_op", False)
            if not asynchronous:
                return None
            torch: Any = sys.modules["torch"]
            future = torch.futures.Future()
            future.set_result([tensor])
            return torch._C._distributed_c10d._create_work_from_future(future)  # one that is over
        if self._looks < LOOKS and len(self._called) < MOST_CALLS and (memory := _memory(tensor)):
            self._called.append((memory, tensor.nbytes))
        return original(*args, **kwargs)

    def stepped(self, optimizer: Any) -> None:
        """An optimizer updated weights: some of the calls before it were of its gradients."""
        self._gradients = None
        if not self._called:
            return
        memory = _gradients([optimizer])
        found = [size for place, size in self._called if place in memory]
        self._called.clear()
        self._looks += 1
        self.sizes = found or self.sizes

    def _is_gradient(self, tensor: Any) -> bool:
        memory = _memory(tensor)
        if self._gradients is None or memory not in self._gradients:
            self._gradients = _gradients(self._loops.optimizers)
        return memory in self._gradients


def _memory(tensor: Any) -> int:
    """The address of a tensor's memory, which `p.grad.data` shares with `p.grad`; 0 if none."""
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (AttributeError, RuntimeError, NotImplementedError):  # sparse, or no tensor at all
        return 0


def _gradients(optimizers: list[Any]) -> set[int]:
    """The addresses of the gradients of all that these optimizers update."""
    weights = (weight for one in optimizers for weight in models.parameters_of(one))
    return {_memory(weight.grad) for weight in weights if weight.grad is not None} - {0}


def exchange(loops: Any) -> Exchange | None:
    """The exchange of the process's gradients; None where nothing is exchanged."""
    if loops.training.world is None or not method(loops):
        return None  # by itself, or with nobody to agree with on when to switch
    if loops.exchanging is None:
        loops.exchanging = Exchange(loops)
        _exchange(loops)  # the script may end before all is measured
    there: Exchange = loops.exchanging
    return there


def method(loops: Any) -> str:
    """The method that exchanges the gradients, "" if none was seen."""
    if loops.ddps.alive:
        return "DistributedDataParallel"
    if "torch.distributed.fsdp" in sys.modules and (kind := models.strategy(loops)) in SHARDED:
        return kind
    return BY_HAND if loops.sums.sizes else ""


def distributed() -> Any:
    """`torch.distributed` where a process group was initialised, else None."""
    module: Any = sys.modules.get("torch.distributed")
    try:
        return module if module.is_available() and module.is_initialized() else None
    except AttributeError:
        return None


def world() -> dict[str, Any] | None:
    """Rank, `world_size` and backend as `torch.distributed` has them; None without it."""
    dist = distributed()
    if dist is None:
        return None
    return {
        "rank": int(dist.get_rank()),
        "world_size": int(dist.get_world_size()),
        "backend": str(dist.get_backend()),
    }


def backend(group: Any = None, device: str = "cpu") -> str:
    """The backend for tensors of a device kind in a group: "gloo", "nccl".

    A group may have one for each kind: "cpu:gloo,cuda:nccl".
    """
    dist = distributed()
    config = str(dist.get_backend_config(group))
    of = dict(word.partition(":")[::2] for word in config.split(","))
    return of.get(device) or str(dist.get_backend(group))


def sent(loops: Any) -> tuple[int | None, list[int]]:
    """Bytes of gradients that this process gives away in a step, and those of each call.

    A loop of several updates a step, or of several exchanges an update, gives them
    away as often. (None, []) where that is not known.
    """
    found = loops.ddps.alive
    if not found:
        sizes = [] if method(loops) in SHARDED else loops.sums.sizes
        return (sum(sizes), sizes) if sizes else (None, [])
    total, buckets = 0, []
    for ddp, watched in found:
        size, of = torch_ddp.sent(ddp)
        if size is None:
            return None, []
        times = max(1, round(watched.exchanges))
        total += size * times
        buckets += of * times
    return total, buckets


def record(driver: Any) -> None:
    """Record `ddp` and `exchange`, and the facts of `_placed`; once a loop."""
    loops = driver.loops
    if loops.exchange_recorded is driver:
        return
    loops.exchange_recorded = driver
    with Attempt(loops.process, "facts about DistributedDataParallel"):
        for ddp, watched in loops.ddps.alive[:MOST]:
            driver.record.write("ddp", **torch_ddp.facts(ddp, watched))
    with Attempt(loops.process, "facts about the exchange of gradients"):
        _exchange(loops)
    with Attempt(loops.process, "facts about devices and checkpoints"):
        _placed(driver)


def _exchange(loops: Any) -> None:
    parallel, how, place = data_parallel(loops), method(loops), world()
    if how and place is not None:
        ddps = loops.ddps.alive
        group = ddps[0][0].process_group if ddps else None
        optimized = (weight for one in loops.optimizers for weight in models.parameters_of(one))
        weight = next(optimized, None)
        device = ddps[0][0].device if ddps else getattr(weight, "device", None)
        size, buckets = sent(loops)
        loops.process.record.write(
            "exchange",
            method=how,
            backend=backend(group, device.type if device is not None else "cpu"),
            replicas=int(distributed().get_world_size(group)),
            bytes=size,
            buckets=buckets,
        )
    elif parallel:
        model = parallel[0][0]
        loops.process.record.write(
            "exchange",
            method="DataParallel",
            backend="",
            replicas=max(1, len(getattr(model, "device_ids", None) or [])),
            bytes=sum(weight.nbytes for weight in model.parameters() if weight.requires_grad),
            buckets=[],
        )


# ------------------------------------------------------------------------ the hooks


def watch_sums(loops: Any, module: Any) -> None:
    """See all-reduces; `module` is `torch.distributed.distributed_c10d`."""
    if hasattr(module, "all_reduce"):  # PyTorch may be built without it
        around(loops.process, module, "all_reduce")(loops.sums.reduce)


def watch_data_parallel(loops: Any, module: Any) -> None:
    """Note where each is built; `module` is `torch.nn.parallel.data_parallel`."""

    def built(model: Any, *args: Any, **kwargs: Any) -> None:
        loops.data_parallels.append((weakref.ref(model), frames.here(model)))

    after(loops.process, module.DataParallel, "__init__", "where a DataParallel is built", built)


def watch_saves(loops: Any, module: Any) -> None:
    """Count and time checkpoints that are written to files; `module` is `torch.serialization`.

    A step in which one is written now and then is no usual one. The module may be that of
    `torch.distributed.checkpoint` as well, which saves a file for each rank: these are not counted.
    """
    places, process = Places(), loops.process
    whole = module.__name__ == "torch.serialization"

    @around(process, module, "save")
    def save(original: Any, *args: Any, **kwargs: Any) -> Any:
        saves = loops.saves
        if saves.under_way or loops.elsewhere():
            return original(*args, **kwargs)
        saves.under_way, began = True, process.clock()
        try:
            result = original(*args, **kwargs)
        finally:
            saves.under_way = False
        with Attempt(process, "a checkpoint"):
            driver, file = loops.training.driver, kwargs.get("f", (*args, None, None)[1])
            path = isinstance(getattr(file, "name", file), (str, os.PathLike))  # no buffer
            if not loops.passive() and driver and (path or not whole):
                saves.count += whole
                saves.where = saves.where or frames.here()
                seconds = process.clock() - began
                process.record.write("saving", s=began, seconds=seconds, **places.here())
                driver.evaluated = True
        return result


# -------------------------------------------------------------------- asked for later


def data_parallel(loops: Any) -> list[tuple[Any, dict[str, Any] | None]]:
    """The `DataParallel` modules that are still there, and where they were built."""
    found = [(reference(), where) for reference, where in loops.data_parallels]
    return [(model, where) for model, where in found if model is not None]


def _placed(driver: Any) -> None:
    """Record the facts `data_parallel`, `model_devices`, `checkpoint_writes`.

    `local_world_size` is what the launcher said of this host. `checkpoint_where` is the
    first call that wrote one in the loop.
    """
    loops, fact = driver.loops, driver.process.fact
    for parallel, where in data_parallel(loops)[:1]:
        ids = [int(index) for index in getattr(parallel, "device_ids", None) or []]
        model = type(getattr(parallel, "module", parallel)).__name__
        fact("data_parallel", {"model": model, "where": where, "device_ids": ids})
    # Parameters on the host beside one GPU count: they are moved, or computed with, in each step.
    trained = models.trained_parameters(loops)
    for call in models.models(loops):
        weights = (one for one in call.module.parameters() if not trained or id(one) in trained)
        on = Counter(str(weight.device) for weight in weights)
        if len(on) > 1:
            cls = type(models.unwrapped(call.module)).__name__
            fact("model_devices", {"model": cls, "devices": dict(on)})
            break
    local = os.environ.get("LOCAL_WORLD_SIZE", "")
    fact("local_world_size", int(local) if local.isdigit() else None)
    fact("checkpoint_writes", loops.saves.count)
    if loops.saves.where is not None:
        fact("checkpoint_where", loops.saves.where)

"""The exchange of gradients between processes: switched off for a while, timed alone, recorded.

Also models that are spread over devices by other means, and checkpoints.
"""

from __future__ import annotations

import os
import statistics
import sys
import weakref
from collections import Counter
from datetime import timedelta
from typing import Any

from ...process import frames
from ...process.patching import after, around
from ...process.process import Attempt
from ...process.turns import Places
from ...timing.loops import Extra
from ..built import models
from ..devices import distributed
from . import ddp as torch_ddp

MOST = 4
"""Of so many `DistributedDataParallel` modules there are events."""
BY_HAND = "all_reduce in the loop"
SHARDED = ("FullyShardedDataParallel", "fully_shard")
FSDP = "the exchange of FSDP's shards is not observed: it cannot be left out of a step"
JOINED = "inside of `Join` each forward asks the other ranks whether they go on"
UNSEEN = "no forward of DistributedDataParallel was seen before an update"
SYNC_BATCH_NORM = (
    "SyncBatchNorm exchanges its statistics in the forward pass: "
    "that is not in the times of the exchange of gradients"
)
LOOKS = 3
"""So many updates with all-reduces before them are looked at."""
MOST_CALLS = 100_000
"""Of more calls than these before the first update nothing is kept."""
TIMEOUT_S = 10.0
BUDGET_S = 3.0
"""All the rounds of a probe take no longer than this, or half of the time that is left."""
LEAST_ROUNDS = 3
MOST_ROUNDS = 20
MOST_BYTES = 256 * 1024**2
"""Of a step that exchanges more, so much is timed: the rest takes as long in proportion."""
PARTS = "gradients are exchanged within parts of the job only"


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
        if any(ddp._join_config.enable for ddp, _ in found):
            return JOINED
        if found and not any(watched.updates for _, watched in found):
            return UNSEEN  # a subclass has its own, or a static graph is not known yet
        self._loops.ddps.off = self._loops.sums.off = True
        modules = (module for ddp, _ in found for module in ddp.modules())
        if any(type(module).__name__ == "SyncBatchNorm" for module in modules):
            self._loops.process.note(SYNC_BATCH_NORM)
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
        if memory not in (self._gradients or ()):
            self._gradients = _gradients(self._loops.optimizers)
        return memory in (self._gradients or ())


def _memory(tensor: Any) -> int:
    """The address of a tensor's memory, which `p.grad.data` shares with `p.grad`; 0 if none."""
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (AttributeError, RuntimeError, NotImplementedError):  # sparse, or no tensor at all
        return 0


def _gradients(optimizers: list[Any]) -> set[int]:
    weights = (weight for one in optimizers for weight in models.parameters_of(one))
    return {_memory(weight.grad) for weight in weights if weight.grad is not None} - {0}


def exchange(loops: Any) -> Exchange | None:
    """The exchange of the process's gradients; None where nothing is exchanged."""
    if loops.training.world is None or not method(loops):
        return None  # by itself, or with nobody to agree with on when to switch
    if loops.exchanging is None:
        loops.exchanging = Exchange(loops)
        _exchange(loops)  # the script may end before all is measured
    return loops.exchanging  # type: ignore[no-any-return]


def method(loops: Any) -> str:
    """The method that exchanges the gradients, "" if none was seen."""
    if loops.ddps.alive:
        return "DistributedDataParallel"
    if "torch.distributed.fsdp" in sys.modules and (kind := models.strategy(loops)) in SHARDED:
        return kind
    return BY_HAND if loops.sums.sizes else ""


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
    parallel, how, dist = data_parallel(loops), method(loops), distributed()
    fields: dict[str, Any]
    if how and dist is not None:
        ddp, _ = next(iter(loops.ddps.alive), (None, None))
        weights = (one for each in loops.optimizers for one in models.parameters_of(each))
        device = getattr(next(weights, None) if ddp is None else ddp, "device", None)
        group = None if ddp is None else ddp.process_group
        size, buckets = sent(loops)
        # A group may have a backend for each kind of device: "cpu:gloo,cuda:nccl".
        words = str(dist.get_backend_config(group)).split(",")
        backends = dict(word.partition(":")[::2] for word in words)
        backend = backends.get("cpu" if device is None else device.type) or dist.get_backend(group)
        replicas = int(dist.get_world_size(group))
        fields = {"method": how, "backend": str(backend), "replicas": replicas}
    elif parallel:
        model, _ = parallel[0]
        replicas = max(1, len(getattr(model, "device_ids", None) or []))
        fields = {"method": "DataParallel", "backend": "", "replicas": replicas}
        size = sum(weight.nbytes for weight in model.parameters() if weight.requires_grad)
        buckets = []
    else:
        return
    loops.process.record.write("exchange", **fields, bytes=size, buckets=buckets)


# ------------------------------------------------------------------------ the hooks


def watch_sums(loops: Any, module: Any) -> None:
    """See all-reduces; `module` is `torch.distributed.distributed_c10d`."""
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
        if loops.saving or loops.elsewhere():
            return original(*args, **kwargs)
        loops.saving, began = True, process.clock()  # in as many calls as it takes
        try:
            result = original(*args, **kwargs)
        finally:
            loops.saving = False
        with Attempt(process, "a checkpoint"):
            driver, file = loops.training.driver, kwargs.get("f", (*args, None, None)[1])
            path = isinstance(getattr(file, "name", file), (str, os.PathLike))  # no buffer
            if not loops.passive() and driver and (path or not whole):
                loops.saves += [frames.here()] * whole
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
    fact("checkpoint_writes", len(loops.saves))
    if (where := next(filter(None, loops.saves), None)) is not None:
        fact("checkpoint_where", where)


# Time all-reduces of the gradients' own sizes alone.
#
# That is when all else was measured, in a process group of its own that gives up after `TIMEOUT_S`.
# Rank 0 says what is timed and how often: every rank makes the same calls.


def extras(driver: Any) -> list[Extra]:
    """The last measurements of a loop of several processes, by name.

    What is known already is recorded first: a collective that fails may end the process.
    """
    place = world()
    if place is None or place["world_size"] < 2:
        return []
    return [
        ("exchange", lambda deadline: record(driver)),
        ("all_reduce", lambda deadline: all_reduce(driver, deadline)),
    ]


def all_reduce(driver: Any, deadline: float) -> None:
    """Record the event `all_reduce`, or `missing` with the reason.

    `deadline` is a time of the driver's clock. What fails while it is timed is raised.
    """
    left = max(0.1, min(TIMEOUT_S, deadline - driver.clock()))
    reason = _untimed(driver)
    if not reason and not driver.training.world.meet("all_reduce", left):
        reason = "not all ranks came to time it"
    if reason:
        driver.record.write("missing", what="all_reduce", reason=reason)
        return
    dist = distributed()
    group = dist.new_group(timeout=timedelta(seconds=TIMEOUT_S))
    try:
        driver.record.write(
            "all_reduce",
            devices=int(dist.get_world_size()),
            seconds=_timed(driver, dist, group, deadline),
            bytes=sent(driver.loops)[0],
        )
        driver.sync()
        driver.record.flush()
    finally:
        dist.destroy_process_group(group)


def _untimed(driver: Any) -> str:
    """Why nothing can be timed here, "" if it can."""
    dist, loops = distributed(), driver.loops
    if dist is None:
        return "the process group is gone"
    if driver.training.world is None:
        return "the ranks cannot agree on when to time it"
    if not sent(loops)[1]:
        return "it is not known what is exchanged in a step"
    sizes = {dist.get_world_size(ddp.process_group) for ddp, _ in loops.ddps.alive}
    return PARTS if sizes - {dist.get_world_size()} else ""


def _timed(driver: Any, dist: Any, group: Any, deadline: float) -> float:
    """Median seconds of the all-reduces of a step's buckets, one after the other.

    All ranks make the same calls at the same time.
    """
    torch: Any = sys.modules["torch"]
    ddps = driver.loops.ddps.alive
    weights = (one for each in driver.loops.optimizers for one in models.parameters_of(each))
    weight = torch_ddp.parameters(ddps[0][0])[0] if ddps else next(weights)
    device, dtype = weight.device, weight.dtype

    def agreed(number: Any) -> Any:
        """Rank 0's on every rank."""
        numbers = [number]
        dist.broadcast_object_list(numbers, src=0, group=group, device=device)
        return numbers[0]

    def timed() -> float:
        """Seconds of a step's calls, which all ranks begin together: a small one before them."""
        dist.all_reduce(torch.zeros(1, device=device), group=group)
        driver.sync()
        began = driver.clock()
        for buffer in buffers:
            dist.all_reduce(buffer, group=group)
        driver.sync()
        return float(driver.clock() - began)

    sizes, share = agreed(part_of(sent(driver.loops)[1]))
    whole = torch.zeros(max(sizes) // dtype.itemsize + 1, dtype=dtype, device=device)
    buffers = [whole[: max(1, size // dtype.itemsize)] for size in sizes]
    timed()
    first = timed()
    left = min(BUDGET_S, 0.5 * (deadline - driver.clock()))
    rounds = agreed(min(MOST_ROUNDS, max(LEAST_ROUNDS, int(left / max(first, 1e-6)))))
    return statistics.median(timed() for _ in range(rounds)) / float(share)


def part_of(buckets: list[int]) -> tuple[list[int], float]:
    """The sizes of a step's exchange that are timed, and their share of all its bytes."""
    sizes, left = list[int](), MOST_BYTES
    for size in buckets:
        if left > 0:
            sizes.append(min(size, left))
            left -= size
    return sizes, sum(sizes) / sum(buckets)

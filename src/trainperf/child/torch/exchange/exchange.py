"""The exchange of gradients between processes: switched off for a while, and recorded."""

from __future__ import annotations

import os
import sys
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

from ...process import frames
from ...process.patching import after, replace
from ...process.process import Attempt
from ...process.turns import Places
from ..built import models
from . import ddp as torch_ddp
from . import gradient_sums

MOST = 4
"""Of so many `DistributedDataParallel` modules there are events."""
BY_HAND = "all_reduce in the loop"
SHARDED = ("FullyShardedDataParallel", "fully_shard")
FSDP = "the exchange of FSDP's shards is not observed: it cannot be left out of a step"
COMPILED = "TorchDynamo's own reducer exchanges gradients (optimize_ddp = 'python_reducer')"
STATIC = "with static_graph, DDP does not permit it before its first step is over"
DELAYED = "the exchange of some parameters is delayed (delay_all_reduce_named_params)"
OWN_FORWARD = "the forward of a subclass of DistributedDataParallel decides when to exchange"
JOINED = "inside of `Join` each forward asks the other ranks whether they go on"


class Exchange:
    """Switches the exchange of gradients of this process off and on, at step boundaries.

    While off, ranks train apart: their weights differ from then on. DDP's broadcast of
    buffers and its search for unused parameters are off with it, as in `no_sync`;
    SyncBatchNorm's statistics are exchanged all the same. All ranks must switch at the same step.
    """

    def __init__(self, loops: Any) -> None:
        self._ddps = torch_ddp.ddps(loops)
        self._sums = gradient_sums.sums(loops)
        self._loops = loops

    def off(self) -> str:
        """Exchange nothing from the next forward on; return "" or why that cannot be."""
        reason = self._reason()
        if not reason:
            self._ddps.off = self._sums.off = True
            modules = (module for ddp, _ in self._ddps.alive for module in ddp.modules())
            if any(type(module).__name__ == "SyncBatchNorm" for module in modules):
                self._loops.process.note(
                    "SyncBatchNorm exchanges its statistics in the forward pass: "
                    "that is not in the times of the exchange of gradients"
                )
        return reason

    def on(self) -> None:
        """Exchange as the loop does by itself."""
        self._ddps.off = self._sums.off = False

    def _reason(self) -> str:
        if method(self._loops) in SHARDED:
            return FSDP
        for ddp, one in self._ddps.alive:
            state = ddp.__dict__
            if state.get("_use_python_reducer") or not self._ddps.hooked:
                return COMPILED
            if not one.updates and self._ddps.overridden(ddp):
                return OWN_FORWARD
            if state.get("static_graph") and not state.get(
                "_static_graph_delay_allreduce_enqueued"
            ):
                return STATIC
            if state.get("_delay_all_reduce_params"):
                return DELAYED
            if getattr(state.get("_join_config"), "enable", False):
                return JOINED
        return ""


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
    if torch_ddp.ddps(loops).alive:
        return "DistributedDataParallel"
    if "torch.distributed.fsdp" in sys.modules and (kind := models.strategy(loops)) in SHARDED:
        return kind
    return BY_HAND if gradient_sums.sums(loops).sizes else ""


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
    try:
        config = str(dist.get_backend_config(group))
    except (AttributeError, ValueError, RuntimeError):
        config = str(dist.get_backend(group))
    of = dict(word.partition(":")[::2] for word in config.split(","))
    return of.get(device) or str(dist.get_backend(group))


def sent(loops: Any) -> tuple[int | None, list[int]]:
    """Bytes of gradients that this process gives away in a step, and those of each call.

    A loop of several updates a step, or of several exchanges an update, gives them
    away as often. (None, []) where that is not known.
    """
    found = torch_ddp.ddps(loops).alive
    if not found:
        sizes = [] if method(loops) in SHARDED else gradient_sums.sums(loops).sizes
        return (sum(sizes), sizes) if sizes else (None, [])
    total, buckets = 0, []
    for ddp, one in found:
        size, of = torch_ddp.sent(ddp)
        if size is None:
            return None, []
        times = max(1, round(one.synced / one.updates)) if one.updates else 1
        total += size * times
        buckets += of * times
    return total, buckets


def record(driver: Any) -> None:
    """Record `ddp`, `exchange` and `overlap`, and the facts of `placed`; once a loop."""
    loops = driver.loops
    if loops.exchange_recorded is driver:
        return
    loops.exchange_recorded = driver
    parts: tuple[tuple[str, Callable[[Any], None]], ...] = (
        ("DistributedDataParallel", _ddps),
        ("the exchange of gradients", lambda driver: _exchange(driver.loops)),
        ("devices and checkpoints", _placed),
    )
    for what, part in parts:
        with Attempt(loops.process, f"facts about {what}"):
            part(driver)


def _ddps(driver: Any) -> None:
    for ddp, one in torch_ddp.ddps(driver.loops).alive[:MOST]:
        driver.record.write("ddp", **torch_ddp.facts(ddp, one))
    for ddp, one in torch_ddp.ddps(driver.loops).alive[:1]:
        overlap = torch_ddp.overlap(ddp, one)
        if overlap is not None:
            driver.record.write("overlap", **overlap)


def _exchange(loops: Any) -> None:
    parallel = data_parallel(loops)
    how, place = method(loops), world()
    if how and place is not None:
        ddps = torch_ddp.ddps(loops).alive
        group = ddps[0][0].process_group if ddps else None
        device = ddps[0][0].device.type if ddps else _device(loops)
        size, buckets = sent(loops)
        replicas = int(distributed().get_world_size(group))
        loops.process.record.write(
            "exchange",
            method=how,
            backend=backend(group, device),
            replicas=replicas,
            bytes=size,
            buckets=buckets,
        )
    elif parallel:
        one = parallel[0][0]
        loops.process.record.write(
            "exchange",
            method="DataParallel",
            backend="",
            replicas=max(1, len(getattr(one, "device_ids", None) or [])),
            bytes=gradient_bytes(one),
            buckets=[],
        )


def _device(loops: Any) -> str:
    """The kind of device that trained parameters are on."""
    for optimizer in loops.optimizers:
        for group in optimizer.param_groups:
            for one in group["params"]:
                return str(one.device.type)
    return "cpu"


# Models spread over devices by other means than DDP, and checkpoints.


# ------------------------------------------------------------------------ the hooks


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

    def make(original: Any) -> Any:
        def save(*args: Any, **kwargs: Any) -> Any:
            if loops.saving or loops.elsewhere():
                return original(*args, **kwargs)
            loops.saving, began = True, process.clock()
            try:
                result = original(*args, **kwargs)
            finally:
                loops.saving = False
            with Attempt(process, "a checkpoint"):
                driver, file = loops.training.driver, kwargs.get("f", (*args, None, None)[1])
                if not loops.passive() and driver and (_is_file(file) or not whole):
                    count, where = loops.saves
                    loops.saves = count + whole, where or frames.here()
                    seconds = process.clock() - began
                    process.record.write("saving", s=began, seconds=seconds, **places.here())
                    driver.evaluated = True
            return result

        return save

    replace(module, "save", make)


def _is_file(target: Any) -> bool:
    """Whether it is a path or an open file, no buffer in memory."""
    return isinstance(target, (str, os.PathLike)) or isinstance(getattr(target, "name", None), str)


# -------------------------------------------------------------------- asked for later


def data_parallel(loops: Any) -> list[tuple[Any, dict[str, Any] | None]]:
    """The `DataParallel` modules that are still there, and where they were built."""
    built = loops.data_parallels
    found = [(reference(), where) for reference, where in built]
    return [(one, where) for one, where in found if one is not None]


def _placed(driver: Any) -> None:
    """Record the facts `data_parallel`, `model_devices`, `checkpoint_writes`.

    `local_world_size` is what the launcher said of this host. `checkpoint_where` is the
    first call that wrote one in the loop.
    """
    loops, fact = driver.loops, driver.process.fact
    for one, where in data_parallel(loops)[:1]:
        ids = [int(index) for index in getattr(one, "device_ids", None) or []]
        model = type(getattr(one, "module", one)).__name__
        fact("data_parallel", {"model": model, "where": where, "device_ids": ids})
    placed = over_devices(loops)
    if placed:
        fact("model_devices", placed)
    local = os.environ.get("LOCAL_WORLD_SIZE", "")
    fact("local_world_size", int(local) if local.isdigit() else None)
    count, where = loops.saves
    fact("checkpoint_writes", count)
    if where is not None:
        fact("checkpoint_where", where)


def over_devices(loops: Any) -> dict[str, Any] | None:
    """Which devices a trained model was placed on by hand: parameters on each of them.

    None if on one only. Parameters on the host beside one GPU count: they are moved, or
    computed with, in each step.
    """
    trained = models.trained_parameters(loops)
    for model, _, _ in models.models(loops):
        on = Counter(
            str(one.device) for one in model.parameters() if not trained or id(one) in trained
        )
        if len(on) > 1:
            return {"model": type(models.unwrapped(model)).__name__, "devices": dict(on)}
    return None


def gradient_bytes(model: Any) -> int:
    """Bytes of the gradients of all parameters that want one."""
    torch: Any = sys.modules["torch"]
    return sum(
        one.numel() * one.element_size()
        for one in model.parameters()
        if one.requires_grad and isinstance(one, torch.Tensor)
    )

"""One process as a process group, and PyTorch with the hooks for exchanges, for a while."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from kit.child import Watcher

HOOKED_RANK = """
    import datetime, json, os, sys, time
    from types import SimpleNamespace

    from kit.child import Watcher
    from trainperf.child.start import set_hook
    from trainperf.child.torch.loops import TorchLoops
    from trainperf.child.start import PostImport

    watcher = Watcher()
    watcher.clock = time.monotonic
    watcher.driver = SimpleNamespace(kind="none", stale=lambda: False)
    loops = TorchLoops(watcher)
    names = (
        "torch",
        "torch.distributed.distributed_c10d",
        "torch.nn.parallel.distributed",
        "torch.optim.optimizer",
    )
    PostImport(
        dict.fromkeys(names, lambda module, seconds: set_hook(loops, module, "torch")),
        watcher.failed,
    ).install()
"""
"""How the program of a rank begins that sets the hooks for exchanges in its own process."""


@contextmanager
def process_group() -> Iterator[Any]:
    """A gloo group of this process alone."""
    import torch.distributed as dist

    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    try:
        yield dist
    finally:
        dist.destroy_process_group()


@contextmanager
def hooked() -> Iterator[Any]:
    """The loops of a `Watcher`, and hooks for what exchanges gradients."""
    import torch
    from torch.distributed import distributed_c10d
    from torch.nn.parallel import distributed

    from trainperf.child.process.patching import undo
    from trainperf.child.torch.exchange import ddp as torch_ddp
    from trainperf.child.torch.exchange import exchange
    from trainperf.child.torch.loops import TorchLoops

    data_parallel: Any = sys.modules["torch.nn.parallel.data_parallel"]  # a function has its name
    loops = TorchLoops(Watcher())  # type: ignore[arg-type]
    loops.training.driver = SimpleNamespace(kind="none", stale=lambda: False)  # type: ignore
    torch_ddp.watch(loops, distributed)
    exchange.watch_sums(loops, distributed_c10d)
    exchange.watch_data_parallel(loops, data_parallel)
    exchange.watch_saves(loops, torch.serialization)
    try:
        yield loops
    finally:
        undo(distributed.DistributedDataParallel, "forward")
        undo(distributed.DistributedDataParallel, "__init__")
        undo(distributed_c10d, "all_reduce")
        undo(data_parallel.DataParallel, "__init__")
        undo(torch.serialization, "save")


def train(loops: Any, ddp: Any, optimizer: Any, batches: list[Any], synced: list[bool]) -> None:
    """One update from some batches, with `no_sync` where `synced` says no.

    The calls that PyTorch's hooks would make are made here.
    """
    from contextlib import nullcontext

    for batch, sync in zip(batches, synced, strict=True):
        with nullcontext() if sync else ddp.no_sync():
            loss = ddp(batch).sum()
            loops.backward_begins(loss)
            loss.backward()
            loops.backward_ended()
    optimizer.step()
    loops.stepped(optimizer)
    optimizer.zero_grad()


def driver_of(loops: Any) -> Any:
    """As much of a driver as the records of an exchange need; `facts` has those recorded."""
    process, facts = loops.process, {}
    process.fact = facts.__setitem__
    return SimpleNamespace(
        loops=loops,
        process=process,
        training=loops.training,
        record=process.record,
        clock=process.clock,
        sync=lambda: None,
        batch=None,
        loader=None,
        facts=facts,
    )

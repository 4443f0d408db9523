"""The model of a rank without what exchanges its gradients, for passes that no other waits for.

A forward of the module within `DistributedDataParallel` does not prepare its reducer, which then
ignores the backward. All collectives of a process group are numbered: what a pass exchanges
nevertheless is seen in its first run, which the ranks make together.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from .. import memory
from .passes import NotOffered, mapped

SHARDED = ("DTensor", "FlatParameter", "FSDPModule", "FullyShardedDataParallel")
"""Kinds of parameters, and of modules, of which each rank has a part."""
LIGHTNING = ("lightning", "pytorch_lightning")


def alone(module: Any, args: Any, kwargs: Any) -> tuple[Any, Any, Any]:
    """The model and its arguments, as one rank can run it; raises `NotOffered` where none can."""
    import torch

    if type(module) is torch.nn.parallel.DistributedDataParallel:
        device, module = module.device, module.module
        if device is not None and device.type != "cpu":  # it moves what it is given
            args, kwargs = mapped((args, kwargs), lambda tensor: tensor.to(device))
        if any(one.__module__.partition(".")[0] in LIGHTNING for one in type(module).__mro__):
            raise NotOffered("Lightning calls its model by other ways than its forward")
    if any(_sharded(one) for one in (*module.parameters(), *module.modules())):
        raise NotOffered("each rank has a part of the model only")
    for one in module.modules():
        if isinstance(one, torch.nn.SyncBatchNorm):
            raise NotOffered("its SyncBatchNorm exchanges with the other ranks in each pass")
    return module, args, kwargs


def _sharded(one: Any) -> bool:
    return any(base.__name__ in SHARDED for base in type(one).__mro__)


@contextlib.contextmanager
def exchanging_nothing() -> Iterator[None]:
    """Raise `NotOffered` at the end if collectives were made meanwhile."""
    before = _numbers()
    yield
    if _numbers() != before:
        raise NotOffered("the model exchanges with the other ranks in each pass")


def _numbers() -> list[int]:
    """How many collectives each process group has made; raises `NotOffered` if not counted."""
    if memory.processes() < 2:
        return []
    groups: Any = sys.modules["torch.distributed.distributed_c10d"]
    try:
        return [int(one._get_sequence_number_for_group()) for one in groups._world.pg_map]
    except (AttributeError, RuntimeError) as error:
        raise NotOffered("this PyTorch does not count what its process groups exchange") from error

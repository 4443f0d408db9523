"""Time FSDP's collectives at their own sizes alone: as `all_reduce`, which calls it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from . import fsdp
from .fsdp import GATHER, SCATTER, SUM

if TYPE_CHECKING:
    from .all_reduce import Probe


def probe(rank: Probe) -> None:
    """Record the event `all_reduce` of a step's gathers and reductions, one after another.

    `bytes` are half of those of gathers and reduce-scatters: an all-reduce is one of each,
    so that the bandwidth on the bus is what it is for an all-reduce.
    """
    from .all_reduce import in_all

    found = fsdp.collectives(rank.driver.loops)
    torch: Any = sys.modules["torch"]
    calls, seconds = [], 0.0
    for kind, call, dtype in (
        (GATHER, _gather(rank), torch.uint8),
        (SCATTER, _scatter(rank), found.dtype),
        (SUM, rank.sum, found.dtype),
    ):
        sizes = found.of_step(kind)
        if sizes:
            timed = rank.calls(call, sizes, dtype)
            calls += timed
            seconds += in_all(sizes, timed)
    halves = sum(found.of_step(GATHER, SCATTER)) // 2
    rank.driver.record.write(
        "all_reduce",
        calls=[list(call) for call in calls],
        devices=rank.size,
        seconds=seconds,
        bytes=halves + sum(found.of_step(SUM)),
    )


def _gather(rank: Probe) -> Any:
    """All-gather a tensor, of which each rank gives its part."""

    call = getattr(rank.dist, "all_gather_single", None) or rank.dist.all_gather_into_tensor

    def gather(tensor: Any) -> None:
        whole, part = _parts(tensor, rank.size)
        call(whole, part, group=rank.group)

    return gather


def _scatter(rank: Probe) -> Any:
    """Reduce a tensor, of which each rank keeps its part."""

    call = getattr(rank.dist, "reduce_scatter_single", None) or rank.dist.reduce_scatter_tensor

    def scatter(tensor: Any) -> None:
        whole, part = _parts(tensor, rank.size)
        call(part, whole, group=rank.group)

    return scatter


def _parts(tensor: Any, size: int) -> tuple[Any, Any]:
    """As much of a tensor as can be shared among ranks, and memory for one share."""
    share = max(1, tensor.numel() // size)
    if tensor.numel() < size:
        tensor = tensor.new_zeros(size)
    return tensor[: share * size], tensor.new_empty(share)

"""Time FSDP's collectives at their own sizes alone: as `all_reduce`, which calls it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol

from . import fsdp
from .fsdp import GATHER, SCATTER, SUM


class Rank(Protocol):
    """A rank that times collectives in a process group of its own, together with the others."""

    driver: Any
    dist: Any
    group: Any
    size: int

    def sum(self, tensor: Any) -> None:
        """All-reduce a tensor."""

    def calls(
        self, call: Callable[[Any], None], buckets: list[int], dtype: Any
    ) -> list[tuple[int, float]]:
        """Bytes and seconds of `call` with tensors of so many bytes each."""


def probe(rank: Rank) -> None:
    """Record the event `all_reduce` of a step's gathers and reductions, one after another.

    `bytes` are half of those of gathers and reduce-scatters: an all-reduce is one of each,
    so that the bandwidth on the bus is what it is for an all-reduce.
    """
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


def _gather(rank: Rank) -> Any:
    """All-gather a tensor, of which each rank gives its part."""

    call = getattr(rank.dist, "all_gather_single", None) or rank.dist.all_gather_into_tensor

    def gather(tensor: Any) -> None:
        whole, part = _parts(tensor, rank.size)
        call(whole, part, group=rank.group)

    return gather


def _scatter(rank: Rank) -> Any:
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


def in_all(buckets: list[int], calls: list[tuple[int, float]]) -> float:
    """Seconds of all buckets, each by the call nearest in size, in proportion to the bytes."""
    total = 0.0
    for size in buckets:
        timed, seconds = min(calls, key=lambda call: abs(call[0] - size))
        total += seconds * size / timed
    return total

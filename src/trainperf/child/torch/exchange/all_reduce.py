"""Time all-reduces of the gradients' own sizes alone, and what the link between ranks gives.

Runs when all else was measured, in a process group of its own that gives up after
`TIMEOUT_S`. Rank 0 says what is timed and how often: every rank makes the same calls.
"""

from __future__ import annotations

import socket
import statistics
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from ...timing.loops import Extra
from ..built import models
from . import ddp as torch_ddp
from . import exchange

TIMEOUT_S = 10.0
BUDGET_S = 3.0
"""All the rounds of a probe take no longer than this, or half of the time that is left."""
LEAST_ROUNDS = 3
MOST_ROUNDS = 20
MOST_SIZES = 8
MOST_BYTES = 256 * 1024**2
"""A larger bucket is timed at this size: so large, the time goes with the bytes."""
PARTS = "gradients are exchanged within parts of the job only"
LINK_BYTES = 16 * 1024**2
"""Bytes that a rank sends to time a link: far more than what a socket buffers."""


def extras(driver: Any) -> list[Extra]:
    """The last measurements of a loop of several processes, by name.

    What is known already is recorded first: a collective that fails may end the process.
    """
    place = exchange.world()
    if place is None or place["world_size"] < 2:
        return []
    return [
        ("exchange", lambda deadline: exchange.record(driver)),
        ("all_reduce", lambda deadline: all_reduce(driver, deadline)),
    ]


def all_reduce(driver: Any, deadline: float) -> None:
    """Record the events `all_reduce` and `link`, or `missing` with the reason.

    `deadline` is a time of the driver's clock. What fails while it is timed is raised.
    """
    world: Any = driver.training.world
    reason = _reason(driver.loops, world)
    if not reason:
        left = max(0.1, min(TIMEOUT_S, deadline - driver.clock()))
        if not world.meet("all_reduce", left):
            reason = "not all ranks came to time it"
    if reason:
        driver.record.write("missing", what="all_reduce", reason=reason)
        return
    dist = exchange.distributed()
    group = dist.new_group(timeout=timedelta(seconds=TIMEOUT_S))
    try:
        probe = Probe(driver, dist, group, deadline)
        probe.all_reduce()
        probe.link()
        driver.sync()
        driver.record.flush()
    finally:
        dist.destroy_process_group(group)


def _reason(loops: Any, world: Any) -> str:
    """Why nothing can be timed here, "" if it can."""
    dist = exchange.distributed()
    if dist is None:
        return "the process group is gone"
    if world is None:
        return "the ranks cannot agree on when to time it"
    if not exchange.sent(loops)[1]:
        return "it is not known what is exchanged in a step"
    for ddp, _ in loops.ddps.alive:
        if dist.get_world_size(ddp.process_group) != dist.get_world_size():
            return PARTS
    return ""


class Probe:
    """The timing of one rank; the others do the same at the same time."""

    def __init__(self, driver: Any, dist: Any, group: Any, deadline: float) -> None:
        torch: Any = sys.modules["torch"]
        self._torch = torch
        self._driver = driver
        self._dist = dist
        self._group = group
        self._deadline = deadline
        self._rank = int(dist.get_rank())
        self._size = int(dist.get_world_size())
        self._device, self._dtype = _kind(driver.loops, torch)

    def all_reduce(self) -> None:
        """Time the exchange of a step's gradients, one call after another."""
        total, buckets = exchange.sent(self._driver.loops)
        calls = self._calls(buckets)
        self._driver.record.write(
            "all_reduce",
            calls=[list(call) for call in calls],
            devices=self._size,
            seconds=in_all(buckets, calls),
            bytes=total if total is not None else sum(buckets),
        )

    def _calls(self, buckets: list[int]) -> list[tuple[int, float]]:
        """Time all-reduces of the sizes of `buckets`: (bytes, median seconds) of each."""
        sizes, call = self._agreed(representatives(buckets)), self._sum
        width = self._dtype.itemsize
        most = self._torch.zeros(max(sizes) // width + 1, dtype=self._dtype, device=self._device)
        buffers = [most[: max(1, size // width)] for size in sizes]
        for buffer in buffers:
            self._timed(call, buffer)
        first = sum(self._timed(call, buffer) for buffer in buffers)
        taken: list[list[float]] = [[] for _ in buffers]
        for _ in range(self._rounds(first)):
            for times, buffer in zip(taken, buffers, strict=True):
                times.append(self._timed(call, buffer))
        return [(size, statistics.median(times)) for size, times in zip(sizes, taken, strict=True)]

    def link(self) -> None:
        """Record the most that a rank could send while it received as much.

        Either to the next rank, or in an all-reduce of the same size: the best of all
        rounds, in bytes per second. Only for gloo on the CPU, where the ranks' sockets
        are the link; what connects GPUs is known from elsewhere.
        """
        if self._device.type != "cpu" or exchange.backend(self._group) != "gloo":
            return
        out = self._torch.zeros(LINK_BYTES, dtype=self._torch.uint8)
        into = self._torch.empty_like(out)

        def shift(tensor: Any) -> None:
            after, before = (self._rank + 1) % self._size, (self._rank - 1) % self._size
            coming = self._dist.irecv(into, src=before, group=self._group)
            self._dist.isend(tensor, dst=after, group=self._group).wait()
            coming.wait()

        rounds = self._rounds(self._timed(shift, out) + self._timed(self._sum, out))
        sent = min(self._timed(shift, out) for _ in range(rounds))
        summed = min(self._timed(self._sum, out) for _ in range(rounds))
        share = 2 * (self._size - 1) / self._size
        hosts = [""] * self._size
        self._dist.all_gather_object(hosts, socket.gethostname(), group=self._group)
        self._driver.record.write(
            "link",
            kind="loopback" if len(set(hosts)) == 1 else "network",
            bytes_s=max(LINK_BYTES / sent, share * LINK_BYTES / summed),
            source="measured in this run",
        )

    # -------------------------------------------------------------------- internal

    def _sum(self, tensor: Any) -> None:
        self._dist.all_reduce(tensor, group=self._group)

    def _timed(self, call: Callable[[Any], None], tensor: Any) -> float:
        """Seconds of a call that all ranks begin together: a small all-reduce before it."""
        self._sum(self._torch.zeros(1, device=self._device))
        self._driver.sync()
        began = self._driver.clock()
        call(tensor)
        self._driver.sync()
        return float(self._driver.clock() - began)

    def _agreed(self, numbers: list[int]) -> list[int]:
        """Rank 0's numbers on every rank."""
        told = [numbers]
        self._dist.broadcast_object_list(told, src=0, group=self._group, device=self._device)
        return told[0]

    def _rounds(self, seconds: float) -> int:
        """How often to repeat what takes so long, as rank 0 says."""
        left = min(BUDGET_S, 0.5 * (self._deadline - self._driver.clock()))
        wanted = int(left / max(seconds, 1e-6))
        return self._agreed([min(MOST_ROUNDS, max(LEAST_ROUNDS, wanted))])[0]


def representatives(buckets: list[int]) -> list[int]:
    """The sizes to time, ascending: all that differ, or some that stand for those near them."""
    sizes = sorted({min(size, MOST_BYTES) for size in buckets})
    if len(sizes) <= MOST_SIZES:
        return sizes
    return [sizes[index * (len(sizes) - 1) // (MOST_SIZES - 1)] for index in range(MOST_SIZES)]


def in_all(buckets: list[int], calls: list[tuple[int, float]]) -> float:
    """Seconds of all buckets, each by the call nearest in size, in proportion to the bytes."""
    total = 0.0
    for size in buckets:
        timed, seconds = min(calls, key=lambda call: abs(call[0] - size))
        total += seconds * size / timed
    return total


def _kind(loops: Any, torch: Any) -> tuple[Any, Any]:
    """Device and dtype of the gradients as they are sent."""
    for ddp, _ in loops.ddps.alive:
        hook = torch_ddp.comm_hook(ddp, torch_ddp.logged(ddp))
        if hook in torch_ddp.HALVING:
            dtype = torch.bfloat16 if hook.startswith("bf16") else torch.float16
        else:
            dtype = torch_ddp.parameters(ddp)[0].dtype
        return ddp.device, dtype
    weight = next(one for each in loops.optimizers for one in models.parameters_of(each))
    return weight.device, weight.dtype

"""Time all-reduces of the gradients' own sizes alone.

Runs when all else was measured, in a process group of its own that gives up after
`TIMEOUT_S`. Rank 0 says what is timed and how often: every rank makes the same calls.
"""

from __future__ import annotations

import statistics
import sys
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
MOST_BYTES = 256 * 1024**2
"""Of a step that exchanges more, so much is timed: the rest takes as long in proportion."""
PARTS = "gradients are exchanged within parts of the job only"


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
    """Record the event `all_reduce`, or `missing` with the reason.

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
        total, buckets = exchange.sent(driver.loops)
        driver.record.write(
            "all_reduce",
            devices=int(dist.get_world_size()),
            seconds=_timed(driver, dist, group, deadline),
            bytes=total if total is not None else sum(buckets),
        )
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


def _timed(driver: Any, dist: Any, group: Any, deadline: float) -> float:
    """Median seconds of the all-reduces of a step's buckets, one after the other.

    All ranks make the same calls at the same time.
    """
    torch: Any = sys.modules["torch"]
    device, dtype = _kind(driver.loops, torch)

    def agreed(number: Any) -> Any:
        """Rank 0's on every rank."""
        told = [number]
        dist.broadcast_object_list(told, src=0, group=group, device=device)
        return told[0]

    def timed() -> float:
        """Seconds of a step's calls, which all ranks begin together: a small one before them."""
        dist.all_reduce(torch.zeros(1, device=device), group=group)
        driver.sync()
        began = driver.clock()
        for buffer in buffers:
            dist.all_reduce(buffer, group=group)
        driver.sync()
        return float(driver.clock() - began)

    sizes, share = agreed(part_of(exchange.sent(driver.loops)[1]))
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

"""Evidence of jobs with several ranks or devices, for tests of what is made of it.

Everything is plausible and healthy, except what a case names.
"""

from __future__ import annotations

from typing import Any

from kit.evidence import measure
from kit.torch_evidence import torch_evidence
from trainperf.model import (
    Ddp,
    Evidence,
    Exchange,
    Link,
    Missing,
    Parallel,
    Rank,
    Site,
    Strategy,
)

MIB = 1024**2

DDP_SITE = Site("train.py", 16, "main", col=12, end_line=16, end_col=22)
STRATEGY_SITE = Site("train.py", 9, "main", col=15, end_line=9, end_col=49)

DDP = Ddp(
    "Net",
    where=DDP_SITE,
    settings={
        "bucket_cap_mb": 25,
        "find_unused_parameters": False,
        "gradient_as_bucket_view": False,
        "static_graph": False,
    },
    unused=0,
    micro_steps=1.0,
    synced=1.0,
)
STRATEGY = Strategy(
    "MirroredStrategy",
    where=STRATEGY_SITE,
    replicas=2,
    devices=("CPU:0", "CPU:1"),
    cross_device_ops="ReductionToOneDevice",
    auto_shard="AUTO",
    files=0,
    scopes=1,
    distributed=True,
)


def rank(number: int, seconds: float | None = 0.100, **fields: Any) -> Rank:
    """A rank on host "box" whose real step takes `seconds`; others by `real=measure(…)`."""
    fields.setdefault("real", measure(seconds))
    fields.setdefault("resident", measure(None if seconds is None else seconds * 0.98))
    fields.setdefault("local", measure(None if seconds is None else seconds * 0.96))
    fields.setdefault("input_", measure(0.010))
    fields.setdefault("host", "box")
    fields.setdefault("ended", "measured")
    fields.setdefault("local_rank", number)
    fields.setdefault("batch_size", 32)
    fields.setdefault("epoch_steps", 500)
    fields.setdefault("threads", 4)
    fields.setdefault("cores", tuple(range(8)))
    return Rank(rank=number, pid=1000 + number, **fields)


def ranks(count: int = 2, **fields: Any) -> tuple[Rank, ...]:
    """So many equal ranks."""
    return tuple(rank(number, **fields) for number in range(count))


def exchange(
    seconds: float | None = 0.002, waiting: float | None = 0.0005, **fields: Any
) -> Exchange:
    """An exchange that costs a step `seconds`, Missing for None; 100 MiB in four buckets."""
    lost: float | Missing = Missing("not measured in this case") if waiting is None else waiting
    fields.setdefault("method", "DistributedDataParallel")
    fields.setdefault("backend", "gloo")
    fields.setdefault("replicas", 2)
    fields.setdefault("bytes", 100 * MIB)
    fields.setdefault("buckets", (MIB, 33 * MIB, 33 * MIB, 33 * MIB))
    return Exchange(seconds_=measure(seconds), waiting_=lost, **fields)


LOOPBACK = Link("loopback", 8e9, "measured in this run")


def job(framework: str = "torch", **fields: Any) -> Parallel:
    """Two ranks under torchrun with DDP, or one process with a MirroredStrategy of two."""
    several = framework == "torch"
    fields.setdefault("processes", ranks(2) if several else ranks(1))
    fields.setdefault("expected", len(fields["processes"]))
    fields.setdefault("replicas", max(2, fields["expected"]))
    fields.setdefault("launcher", "torchrun" if several else "")
    fields.setdefault("hosts", 1)
    if several:
        fields.setdefault("ddp", (DDP,))
        fields.setdefault("exchange", exchange())
    else:
        fields.setdefault("strategy", STRATEGY)
        fields.setdefault(
            "exchange",
            exchange(method="MirroredStrategy", backend=STRATEGY.cross_device_ops, buckets=()),
        )
    return Parallel(**fields)


def parallel_evidence(*, parallel: dict[str, Any] | None = None, **fields: Any) -> Evidence:
    """A healthy job of two ranks; `parallel_=None` stands for one process on one device.

    `parallel` holds further fields of `Parallel`, all else are those of `torch_evidence()`.
    """
    made = fields.setdefault("parallel_", job(**(parallel or {})))
    fields.setdefault("facts", {"local_world_size": len(made.processes)} if made else {})
    return torch_evidence(**fields)

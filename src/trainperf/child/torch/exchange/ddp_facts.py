"""A `DistributedDataParallel`'s own word: settings, buckets, unused parameters."""

from __future__ import annotations

from typing import Any

from .ddp import WatchedDdp, logged, parameters

MIB = 1024**2

HALVING = {"fp16_compress_hook": 2, "bf16_compress_hook": 2, "FP16_COMPRESS": 2}
"""Communication hooks that send gradients in half of float32's bytes, by their names."""
SAME = ("allreduce_hook", "ALLREDUCE")
"""Those that send what would be sent without them."""


def facts(ddp: Any, one: WatchedDdp) -> dict[str, Any]:
    """The fields of `Ddp` for one of them."""
    data = logged(ddp)
    per_update = one.updates or None
    return {
        "model": type(ddp.module).__name__,
        "where": one.where,
        "settings": settings(ddp, data),
        "given": list(one.given),
        "comm_hook": comm_hook(ddp, data),
        "unused": unused(one, data),
        "graph_is_static": graph_is_static(ddp, data),
        "micro_steps": one.micro_steps / per_update if per_update else None,
        "synced": one.synced / per_update if per_update else None,
    }


def settings(ddp: Any, data: dict[str, Any]) -> dict[str, Any]:
    """The effective values of the keywords, `bucket_cap_mb` in MiB; whether inside of `Join`."""
    cap = data.get("bucket_cap_bytes", getattr(ddp, "bucket_bytes_cap", None))
    found = {
        "find_unused_parameters": getattr(ddp, "find_unused_parameters", None),
        "gradient_as_bucket_view": getattr(ddp, "gradient_as_bucket_view", None),
        "static_graph": getattr(ddp, "static_graph", None),
        "bucket_cap_mb": None if cap is None else cap / MIB,
        "mixed_precision": getattr(ddp, "mixed_precision", None) is not None,
        "join": bool(getattr(getattr(ddp, "_join_config", None), "enable", False)),
    }
    return {name: value for name, value in found.items() if value is not None}


def comm_hook(ddp: Any, data: dict[str, Any]) -> str:
    """The name of the communication hook that was registered, "" if none was."""
    hooks = getattr(ddp, "_comm_hooks", None) or []
    if hooks:
        hook = hooks[-1][0]
        return str(getattr(hook, "__qualname__", type(hook).__name__))
    return str(data.get("comm_hook", ""))


def unused(one: WatchedDdp, data: dict[str, Any]) -> int | None:
    """How many parameters got no gradient: at least so many, None if not looked at.

    DDP's own search says that there were some even where another rank had gradients for
    them; how many is not in its logging.
    """
    if data.get("unused_parameter_size", 0) > 0:
        return max(one.unused or 0, 1)
    return one.unused


def graph_is_static(ddp: Any, data: dict[str, Any]) -> bool | None:
    """Whether the same parameters were unused in every step.

    DDP compares only where it searches for unused ones: elsewhere nobody knows (None).
    """
    if not getattr(ddp, "find_unused_parameters", False) or getattr(ddp, "static_graph", False):
        return None
    ask = getattr(ddp.reducer, "_ddp_graph_static", None)
    if ask is None or data.get("iteration", 0) < 2:
        return None
    return bool(ask())


def sent(ddp: Any) -> tuple[int | None, list[int]]:
    """Bytes of gradients that leave a replica in an exchange, and those of each bucket.

    (None, []) where a communication hook of the user's own decides what is sent.
    """
    data = logged(ddp)
    hook = comm_hook(ddp, data)
    if hook and hook not in SAME and hook not in HALVING:
        return None, []
    of = [one.numel() * one.element_size() for one in parameters(ddp)]
    named = data.get("rebuilt_bucket_sizes") or data.get("bucket_sizes") or ""
    buckets = [int(word) for word in str(named).replace(",", " ").split()]
    if sum(buckets) != sum(of):
        buckets = [sum(of)]
    share = HALVING.get(hook, 1)
    return sum(of) // share, [one // share for one in buckets]


def overlap(ddp: Any, one: WatchedDdp) -> dict[str, Any] | None:
    """The fields of `Overlap`, seconds per update."""
    return one.times.overlap(ddp, one.synced / one.updates if one.updates else 1.0)

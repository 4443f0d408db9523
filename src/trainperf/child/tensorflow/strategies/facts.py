"""A `tf.distribute` strategy's own word: replicas, workers, how they communicate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NAMES = {
    "CollectiveAllReduceStrategy": "MultiWorkerMirroredStrategy",
    "CollectiveAllReduceStrategyV1": "MultiWorkerMirroredStrategy",
    "MirroredStrategyV1": "MirroredStrategy",
    "ParameterServerStrategyV2": "ParameterServerStrategy",
}


@dataclass
class Built:
    """A strategy of the user's: where it was built, what was given, how it was used."""

    strategy: Any
    where: dict[str, Any] | None
    given: bool = False
    scopes: int = 0


def replicas(strategy: Any) -> int:
    """Model copies of a strategy over all its workers; 1 where it does not say."""
    try:
        return int(strategy.num_replicas_in_sync)
    except Exception:  # a parameter server's needs its coordinator
        return 1


def described(built: Built) -> dict[str, Any]:
    """A strategy as the event `tf_strategy` has it."""
    strategy = built.strategy
    extended = strategy.extended
    kind = type(strategy).__name__
    return {
        "cls": NAMES.get(kind, kind),
        "where": built.where,
        "replicas": replicas(strategy),
        "workers": int(getattr(extended, "_num_workers", 1)),
        "devices": [str(device) for device in devices(extended)],
        "cross_device_ops": operations(extended),
        "cross_device_ops_given": built.given,
        "scopes": built.scopes,
    }


def devices(extended: Any) -> tuple[Any, ...]:
    """The devices of a worker's replicas; none where the strategy does not say."""
    try:
        return tuple(extended.worker_devices)
    except Exception:
        return ()


def operations(extended: Any) -> str:
    """The operation that sums over the replicas: `NcclAllReduce`, `CollectiveAllReduce (RING)`.

    The implementation of collectives is the one TensorFlow takes: AUTO is NCCL where all
    devices are GPUs, and a ring else.
    """
    found = getattr(extended, "_cross_device_ops", None)
    if found is None:
        return ""
    name = type(found).__name__
    return f"{name} ({implementation(extended)})" if name == "CollectiveAllReduce" else name


def implementation(extended: Any) -> str:
    """How collectives communicate: "NCCL" or "RING"."""
    options = getattr(extended, "_communication_options", None)
    asked = getattr(getattr(options, "implementation", None), "value", "AUTO")
    gpus = all("GPU" in str(device).upper() for device in devices(extended))
    if asked == "RING" or not gpus:
        return "RING"
    return "NCCL"


def worker_hosts(extended: Any) -> list[str]:
    """The host of each worker, in the order of their ranks, as the cluster names them."""
    spec = getattr(extended, "_cluster_spec", None)
    if spec is None:
        return []
    jobs = spec.as_dict() if hasattr(spec, "as_dict") else {}
    tasks = [address for job in ("chief", "worker") for address in jobs.get(job, ())]
    return [str(address).rpartition(":")[0] for address in tasks]

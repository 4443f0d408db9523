"""A `tf.distribute` strategy's own word: replicas, workers, how they communicate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..batches import ADAPTER_CALLS, chain, undistributed

NAMES = {
    "CollectiveAllReduceStrategy": "MultiWorkerMirroredStrategy",
    "CollectiveAllReduceStrategyV1": "MultiWorkerMirroredStrategy",
    "MirroredStrategyV1": "MirroredStrategy",
    "ParameterServerStrategyV2": "ParameterServerStrategy",
}


@dataclass
class Built:
    """A strategy of the user's: where it was built, how it was used."""

    strategy: Any
    where: dict[str, Any] | None
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


# How the loop's dataset is spread over workers and replicas, and where it was made.


BATCH_CALLS = ("batch", "padded_batch", "ragged_batch")


def spread(dataset: Any) -> dict[str, Any]:
    """A loop's dataset as the event `tf_strategy` has it; nothing if there is none."""
    if dataset is None:
        return {}
    from tensorflow.python.distribute import input_lib

    kinds = (input_lib.DistributedDataset, input_lib.DistributedDatasetsFromFunction)
    distributed = {"distributed": isinstance(dataset, kinds)}
    plain = undistributed(dataset)
    if plain is None:
        return distributed
    nodes = chain(plain)
    return {
        **distributed,
        "dataset_where": _last_site(nodes, ()),
        "batch_where": _last_site(nodes, BATCH_CALLS),
    }


def _last_site(nodes: list[Any], calls: tuple[str, ...]) -> dict[str, Any] | None:
    """The user's call that made the last stage, or the last of some kinds of stages."""
    for node in reversed(nodes):
        site: dict[str, Any] | None = getattr(node, "_trainperf_site", None)
        call = getattr(node, "_trainperf_call", "")
        if site is not None and call not in ADAPTER_CALLS and (not calls or call in calls):
            return site
    return None

"""A `tf.distribute` strategy's own word: replicas, workers, how they communicate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..batches import ADAPTER_CALLS, chain, op_types, undistributed

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


# How the loop's dataset is spread over workers and replicas, and where it was made.


READERS = ("TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset")
BATCH_CALLS = ("batch", "padded_batch", "ragged_batch")


def spread(dataset: Any, workers: int) -> dict[str, Any]:
    """A loop's dataset as the event `tf_strategy` has it; nothing if there is none.

    `auto_shard` is the policy that takes effect: "" where there is one worker and
    nothing to shard, or where a function makes the dataset of each worker.
    """
    if dataset is None:
        return {}
    from tensorflow.python.distribute import input_lib

    kinds = (input_lib.DistributedDataset, input_lib.DistributedDatasetsFromFunction)
    by_function = isinstance(dataset, input_lib.DistributedDatasetsFromFunction)
    plain = undistributed(dataset)
    if plain is None:
        return {"distributed": isinstance(dataset, kinds)}
    nodes = chain(plain)
    files = file_count(nodes)
    return {
        "distributed": isinstance(dataset, kinds),
        "files": files,
        "auto_shard": "" if by_function or workers < 2 else policy(plain, files),
        "dataset_where": _last_site(nodes, ()),
        "batch_where": _last_site(nodes, BATCH_CALLS),
    }


def policy(dataset: Any, files: int | None) -> str:
    """The auto-shard policy that takes effect: "FILE", "DATA", "OFF", "HINT".

    AUTO shards by files where the dataset reads some, else by elements (TensorFlow's
    `AutoShardDataset`).
    """
    options = dataset.options().experimental_distribute
    name = str(getattr(options.auto_shard_policy, "name", "AUTO"))
    if name != "AUTO":
        return name
    return "FILE" if files is not None else "DATA"


def file_count(nodes: list[Any]) -> int | None:
    """Files at the root of a chain; None where it reads none, or does not tell how many."""
    for node in nodes:
        names = getattr(node, "_filenames", None)
        if names is not None:
            return _count(names)
    reads = any(
        op.startswith(READERS)
        for node in nodes
        if (function := getattr(node, "_map_func", None)) is not None
        for op in op_types(function)
    )
    if not reads or not nodes:
        return None
    spec = getattr(nodes[0], "element_spec", None)
    dtype = getattr(spec, "dtype", None)
    return _count(nodes[0]) if dtype is not None and dtype.name == "string" else None


def _count(names: Any) -> int | None:
    if hasattr(names, "cardinality"):
        count = int(names.cardinality())
        return count if count >= 0 else None
    shape = getattr(names, "shape", None)
    known = shape.num_elements() if shape is not None else None
    return int(known) if known is not None else None


def _last_site(nodes: list[Any], calls: tuple[str, ...]) -> dict[str, Any] | None:
    """The user's call that made the last stage, or the last of some kinds of stages."""
    for node in reversed(nodes):
        site: dict[str, Any] | None = getattr(node, "_trainperf_site", None)
        call = getattr(node, "_trainperf_call", "")
        if site is not None and call not in ADAPTER_CALLS and (not calls or call in calls):
            return site
    return None

"""How the loop's dataset is spread over workers and replicas, and where it was made."""

from __future__ import annotations

from typing import Any

from ..batches import undistributed
from ..chains import ADAPTER_CALLS, chain, op_types

READERS = ("TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset")
BATCH_CALLS = ("batch", "padded_batch", "ragged_batch")


def described(dataset: Any, workers: int) -> dict[str, Any]:
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

"""The cases of `tf_auto_shard`."""

from __future__ import annotations

from fixes.cases.ranks._parallel_cases import parallel_evidence, ranks, strategy
from trainperf.model import Evidence, Site

DATASET_SITE = Site("train.py", 14, "main", col=14, end_line=14, end_col=60)


def _workers(count: int, files: int | None, policy: str = "AUTO", **fields: object) -> Evidence:
    """Evidence of so many workers of one replica each."""
    made = strategy(
        cls="MultiWorkerMirroredStrategy",
        workers=count,
        replicas=count,
        files=files,
        auto_shard=policy,
        dataset_where=DATASET_SITE,
        **fields,
    )
    job = {"processes": ranks(count), "expected": count, "replicas": count}
    return parallel_evidence("tensorflow", strategy=made, parallel=job)


silent = [
    # one worker
    parallel_evidence("tensorflow"),
    parallel_evidence("tensorflow", strategy=strategy(files=1)),
    # as many files as workers, or so many that one more does not matter
    _workers(2, 2),
    _workers(4, 8),
    _workers(4, 402),
    # no files, or not known
    _workers(4, 0),
    _workers(4, None),
    # shared out otherwise
    _workers(4, 3, "DATA"),
    _workers(4, 3, "OFF"),
]

fires = [
    _workers(4, 3),
    _workers(2, 1, "FILE"),
    _workers(4, 5),
]

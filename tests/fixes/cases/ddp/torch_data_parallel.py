"""The cases of `torch_data_parallel`."""

from __future__ import annotations

from typing import Any

from fixes.cases.ranks._parallel_cases import exchange, on_gpus, parallel_evidence, ranks
from trainperf.model import Evidence

WHERE = {"file": "train.py", "line": 16, "function": "main"}


def _wrapped(ids: int = 2, seconds: float | None = None, **fields: Any) -> Evidence:
    more = {
        "processes": ranks(1),
        "replicas": max(2, ids),
        "ddp": (),
        "launcher": "",
        "exchange": exchange(seconds, method="DataParallel", backend=""),
    }
    built = {"model": "Net", "where": WHERE, "device_ids": list(range(ids))}
    fields.setdefault("facts", {"data_parallel": built})
    return parallel_evidence(parallel=more, **on_gpus(ids), **fields)


silent = [
    parallel_evidence(),
    parallel_evidence(parallel_=None),
    # on one device, or without a GPU, it does nothing
    _wrapped(1),
    _wrapped(0),
    # nothing of the kind was built
    _wrapped(facts={}),
    # it costs next to nothing
    _wrapped(seconds=0.001),
    # input-bound
    _wrapped(real=0.100, resident=0.002, input=0.099),
]

fires = [
    _wrapped(),
    _wrapped(4, 0.040),
    _wrapped(8, real=None, resident=None),
    _wrapped(facts={"data_parallel": {"model": "Net", "where": None, "device_ids": [0, 1]}}),
]

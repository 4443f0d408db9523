"""The cases of `torch_unsharded_data`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fixes.cases.common.torch_cases import ITEM_SITE, LOADER
from fixes.cases.ddp._shard_examples import EXAMPLES
from fixes.cases.ranks._parallel_cases import parallel_evidence, rank, ranks
from trainperf.model import Evidence, Loader

READS_ALL = replace(LOADER, sampler="RandomSampler", dataset="ImageFolder", item=None)

SAME = {"ranks_same_data": True}


def _reading(loader: Loader | None = READS_ALL, **fields: Any) -> Evidence:
    return parallel_evidence(loader=loader, **fields)


silent = [
    _reading(parallel_=None),
    # it shards
    _reading(replace(LOADER, sampler="DistributedSampler")),
    # one of the user's own, or not known
    _reading(replace(LOADER, sampler="EveryNth")),
    _reading(replace(LOADER, sampler="")),
    # a dataset that may be a part, of PyTorch's or the user's own
    _reading(replace(READS_ALL, dataset="Subset")),
    _reading(LOADER),
    _reading(replace(READS_ALL, item=ITEM_SITE)),
    # the ranks' samples were compared, and differ
    _reading(facts={"ranks_same_data": False}),
    _reading(replace(READS_ALL, iterable=True)),
    _reading(None),
    # its ranks have different lengths: each has its own
    _reading(parallel={"processes": (rank(0), rank(1, epoch_steps=400))}),
    # several devices in one process
    _reading(parallel={"processes": (rank(0),), "expected": 1}),
]

examples = EXAMPLES

fires = [
    _reading(),
    _reading(replace(READS_ALL, sampler="SequentialSampler", where=None)),
    # the ranks' samples were compared, and are the same
    _reading(replace(READS_ALL, dataset="TensorDataset"), facts=SAME),
    _reading(
        replace(READS_ALL, item=ITEM_SITE),
        facts=SAME,
        parallel={"processes": ranks(4), "replicas": 4},
    ),
]

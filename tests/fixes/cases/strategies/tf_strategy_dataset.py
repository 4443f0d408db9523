"""The cases of `tf_strategy_dataset`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import SITE
from fixes.cases.ranks._parallel_cases import parallel_evidence, strategy
from trainperf.model import Loop, Site

DATASET_SITE = Site("train.py", 14, "main", col=14, end_line=14, end_col=60)

LOOP = Loop(
    "iterator", where=SITE, batch_size=64, input_kind="tf.data", epoch_steps=500, replicas=2
)

WHOLE = strategy(distributed=False, dataset_where=DATASET_SITE)

silent = [
    parallel_evidence("tensorflow", loop=LOOP),
    parallel_evidence("tensorflow", loop=LOOP, strategy=strategy(distributed=None)),
    # `fit` distributes by itself
    parallel_evidence("tensorflow", strategy=WHOLE),
    # one replica
    parallel_evidence("tensorflow", loop=LOOP, strategy=replace(WHOLE, replicas=1)),
    # input-bound
    parallel_evidence("tensorflow", loop=LOOP, strategy=WHOLE, resident=0.010, input=0.099),
]

fires = [
    parallel_evidence("tensorflow", loop=LOOP, strategy=WHOLE),
    parallel_evidence("tensorflow", loop=LOOP, strategy=replace(WHOLE, dataset_where=None)),
    parallel_evidence(
        "tensorflow",
        loop=LOOP,
        strategy=replace(WHOLE, replicas=8),
        parallel={"exchange": None},
    ),
]

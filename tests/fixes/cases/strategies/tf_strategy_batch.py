"""The cases of `tf_strategy_batch`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import SITE
from fixes.cases.ranks._parallel_cases import exchange, job, parallel_evidence, strategy

DEAR = {"exchange": exchange(0.040, method="MirroredStrategy", buckets=())}

BATCH_SITE = replace(SITE, line=25, end_line=25)

silent = [
    # the exchange is a small part of the step
    parallel_evidence("tensorflow"),
    # it was not timed, or is lost in the noise
    parallel_evidence("tensorflow", parallel={"exchange": exchange(None)}),
    parallel_evidence("tensorflow", parallel={"exchange": None}),
    # input-bound: a sample still has to be read
    parallel_evidence("tensorflow", parallel=DEAR, resident=0.050, input=0.099),
    # devices pay already with the batch as it is
    parallel_evidence("tensorflow", parallel={**DEAR, "break_even_batch_": 16.0}),
    # no strategy
    parallel_evidence("torch", parallel=DEAR),
]

fires = [
    parallel_evidence("tensorflow", parallel=DEAR),
    parallel_evidence("tensorflow", parallel={**DEAR, "break_even_batch_": 120.0}),
    parallel_evidence(
        "tensorflow",
        strategy=strategy(replicas=8, batch_where=BATCH_SITE),
        parallel={**DEAR, "replicas": 8},
        loop=replace(parallel_evidence("tensorflow").loop, batch_size=None, replicas=8),
    ),
    parallel_evidence(
        "tensorflow",
        strategy=strategy(cls="MultiWorkerMirroredStrategy", workers=2),
        parallel={**DEAR, "processes": job().processes, "expected": 2},
    ),
]

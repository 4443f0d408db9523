"""The cases of `ranks_threads`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fixes.cases.common.cases import machine
from fixes.cases.ranks._parallel_cases import on_gpus, parallel_evidence, rank
from trainperf.model import Evidence


def _of(
    *threads: int | None,
    cores: Sequence[Sequence[int]] | None = None,
    framework: Any = "torch",
    **fields: Any,
) -> Evidence:
    """Ranks with so many threads on a box of eight cores, all free or each on its own."""
    own = [
        rank(number, threads=count, cores=tuple(cores[number]) if cores else tuple(range(8)))
        for number, count in enumerate(threads)
    ]
    fields.setdefault("parallel", {})
    more = {"processes": tuple(own), "replicas": len(own), **fields.pop("parallel")}
    return parallel_evidence(framework, parallel=more, **fields)


PINNED = ((0, 1, 2, 3), (4, 5, 6, 7))

silent = [
    # eight cores for two ranks of four threads
    parallel_evidence(),
    parallel_evidence(parallel_=None),
    _of(4, 4),
    # not known
    _of(None, None),
    # a core each
    _of(1, 1, 1, 1, 1, 1, 1, 1),
    _of(1, 1, cores=((0,), (1,)), machine=machine(cores=2)),
    # the step runs on GPUs
    _of(1, 1, **on_gpus()),
    # each rank has its own cores, and fits them
    _of(4, 4, cores=PINNED),
    # waiting for data is what costs
    _of(1, 1, resident=0.002, input=0.099),
    # a host of which only a rank is known, beside one that is well
    _of(1, 4),
    # nothing was timed
    _of(1, 1, real=None),
]

fires = [
    # torchrun's own choice
    _of(1, 1),
    _of(2, 2),
    _of(1, 1, cores=PINNED),
    # as many as there are cores, in each of them
    _of(8, 8),
    _of(8, 8, 8, 8, framework="tensorflow"),
    _of(8, 8, cores=PINNED),
    # a quota of the container
    _of(2, 2, machine=machine(cores=2)),
]

"""The cases of `omp_threads`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fixes.cases.common.cases import GPU, evidence, machine
from fixes.cases.common.torch_cases import torch_evidence
from trainperf.model import ContainerUse, Evidence

QUOTA: dict[str, Any] = {"visible_cores": 16, "affinity_cores": 16, "quota_cores": 2.0}
"""Two cores on a machine of sixteen."""


def _torch(threads: int | None, variable: int | None, cores: float = 8, **more: Any) -> Evidence:
    flags = {"threads": threads, "omp_num_threads": variable}
    more.setdefault("machine", machine(cores=cores))
    return torch_evidence(flags=flags, **more)


def _in_container(given: str | None = None, **fields: Any) -> Evidence:
    """TensorFlow in a container of two cores on a machine of sixteen."""
    box = replace(machine(cores=2), **QUOTA)
    return evidence(machine=box, facts={"intra_op_threads": given}, **fields)


silent = [
    evidence(),
    torch_evidence(),
    # as many as there are cores, or nearly
    _torch(8, None),
    _torch(8, 8),
    _torch(4, 4),
    _torch(10, 10),
    _torch(3, 3, cores=2.5),
    # the script itself chose one thread
    _torch(1, None),
    _torch(1, 8),
    # the other core makes the data
    _torch(1, 1, cores=2),
    # the step runs on a GPU, or is not what costs
    _torch(1, 1, device=GPU),
    _torch(1, 1, resident=0.002, input=0.099),
    # each of several processes has its share
    _torch(1, 1, facts={"local_world_size": 8}),
    # not known
    _torch(None, None),
    _torch(1, 1, real=None),
    _in_container("2"),
    # a quota that is never used up
    _in_container(container=ContainerUse(20.0, quota_cores=2.0, throttled_share=0.01)),
    evidence(facts={"intra_op_threads": "8"}),
]

fires = [
    _torch(1, 1),
    _torch(1, 1, cores=4),
    _torch(64, 64),
    _torch(16, None, cores=2),
    # a quota of half a core
    _torch(2, None, cores=0.5),
    _in_container(),
    _in_container("16"),
]

tries_not = [
    evidence(),
    torch_evidence(),
    _torch(8, 8),
    # the script itself chose one thread
    _torch(1, None),
    _torch(1, 1, device=GPU),
    _torch(None, None),
    _torch(1, 1, facts={"local_world_size": 8}),
    _in_container("2"),
]

tries = [
    _torch(10, 10),
    _torch(1, 1, real=None),
    _torch(1, 1, cores=2),
    _in_container(real=None),
]

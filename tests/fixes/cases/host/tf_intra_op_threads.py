"""The cases of `tf_intra_op_threads`."""

from __future__ import annotations

from typing import Any

from fixes.cases.common.cases import GPU, evidence, machine
from trainperf.model import Evidence


def _limited(threads: int | None, cores: float = 8.0, **more: Any) -> Evidence:
    given = None if threads is None else str(threads)
    return evidence(machine=machine(cores=cores), facts={"intra_op_threads": given}, **more)


silent = [
    # nothing limits it
    evidence(),
    _limited(None),
    # as many as there are cores, or more
    _limited(8),
    _limited(16),
    # a value that TensorFlow takes for "choose yourself"
    _limited(0),
    # the step runs on a GPU
    _limited(1, device=GPU),
    # the step is not what costs
    _limited(1, real=0.1, resident=0.002),
    _limited(1, resident=None),
]

fires = [_limited(1), _limited(4), _limited(1, cores=2.0)]

tries_not = [
    evidence(),
    _limited(8),
    _limited(0),
    _limited(1, device=GPU),
    _limited(1, real=0.1, resident=0.002, input=0.1),
]

tries = [
    _limited(7, real=0.1, resident=0.03, input=0.001),
    _limited(1, resident=None),
    _limited(1, real=None),
]

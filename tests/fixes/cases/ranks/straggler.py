"""The cases of `straggler`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fixes.cases.common.cases import measure
from fixes.cases.ranks._parallel_cases import exchange, parallel_evidence, rank, ranks
from trainperf.model import (
    Missing,
    Straggler,
)

LATE = Straggler(1, "input", 0.040, 0.40, "its input takes 52.0 ms a step, that of rank 0 12.0 ms")

NOT_TIMED = Missing("the exchange could not be switched off")


def _late(found: tuple[Straggler, ...] = (LATE,), local: float | None = None, **more: Any) -> Any:
    own = (rank(0, local=measure(0.055)), rank(1, local=measure(local)))
    fields = {"stragglers": found, "processes": own, "exchange": exchange(0.005, 0.020), **more}
    return parallel_evidence(parallel=fields)


silent = [
    parallel_evidence(),
    parallel_evidence(parallel_=None),
    parallel_evidence("tensorflow"),
    # it is not late enough to matter
    _late((replace(LATE, behind_s=0.001, share=0.01),), 0.0555, exchange=exchange(0.04, 0.001)),
    _late((replace(LATE, behind_s=0.002, share=0.02),), exchange=exchange(0.04, None)),
]

fires = [
    _late(),
    _late(local=0.095),
    _late((replace(LATE, phase="step", cause=""),), 0.095),
    _late((replace(LATE, phase="step", behind_s=0.030), replace(LATE, rank=0)), None),
    parallel_evidence(
        "tensorflow",
        parallel={
            "stragglers": (LATE,),
            "processes": ranks(2, local=NOT_TIMED),
            "exchange": exchange(None, None),
        },
    ),
]

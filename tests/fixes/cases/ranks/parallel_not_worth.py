"""The cases of `parallel_not_worth`."""

from __future__ import annotations

from typing import Any

from fixes.cases.common.cases import measure
from fixes.cases.ranks._parallel_cases import exchange, on_gpus, parallel_evidence, rank, ranks
from trainperf.model import (
    Evidence,
    Missing,
    ScalingPoint,
    Straggler,
)

BREAK_EVEN = 96.0

LATE = Straggler(1, "input", 0.045, 0.45, "its input takes 47.0 ms a step, that of rank 0 2.0 ms")


def _slow(
    *points: ScalingPoint,
    alone: float | None = 0.030,
    batch: float | None = BREAK_EVEN,
    **more: Any,
) -> Evidence:
    """Two ranks whose step of 100 ms takes 30 ms without exchange; `alone=None`: not known."""
    cost = None if alone is None else 0.100 - alone
    own = ranks(2, local=measure(alone))
    job = {
        "processes": own,
        "exchange": exchange(cost, 0.0),
        "scaling": points,
        "break_even_batch_": Missing("not known") if batch is None else batch,
        **more.pop("parallel", {}),
    }
    return parallel_evidence(parallel=job, **more)


def _points(one: float, two: float, rate: bool = True) -> tuple[ScalingPoint, ...]:
    return (
        ScalingPoint(1, one, 32 / one if rate else None, 1.0),
        ScalingPoint(2, two, 64 / two if rate else None, one / two),
    )


silent = [
    parallel_evidence(),
    parallel_evidence(parallel_=None),
    parallel_evidence("tensorflow"),
    # two do more than one, by what was measured, whatever the estimate says
    _slow(*_points(0.060, 0.100)),
    _slow(alone=0.070),
    # they would, if they did not wait for one
    _slow(*_points(0.030, 0.100), parallel={"stragglers": (LATE,)}),
    # as much, within the noise
    _slow(*_points(0.0495, 0.100)),
    # neither runs on fewer devices nor the exchange were measured
    _slow(alone=None),
    _slow(alone=None, parallel={"exchange": None}),
    _slow(*_points(0.030, 0.100)[1:], alone=0.080),
]

fires = [
    _slow(*_points(0.030, 0.100)),
    _slow(*_points(0.030, 0.100, rate=False), batch=None),
    _slow(*_points(0.010, 0.100), parallel={"stragglers": (LATE,)}),
    # by the step without exchange alone
    _slow(),
    _slow(**on_gpus()),
    _slow(parallel={"processes": (rank(0, local=measure(0.02)),) * 2}, batch=None),
    parallel_evidence(
        "tensorflow",
        parallel={"exchange": exchange(0.060, method="MirroredStrategy", backend="")},
    ),
]

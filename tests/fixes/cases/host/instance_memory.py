"""The cases of `instance_memory`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fixes.cases.common.cases import CPU
from fixes.cases.host._instances import PRICES, on_instance
from fixes.cases.host._memory_signs import short
from fixes.cases.tf_data._input_cases import fed
from trainperf.fixes.common.words import GIB
from trainperf.model import Evidence


def _job(name: str = "g5.xlarge", **fields: Any) -> Evidence:
    """A job that swaps at 15.5 GiB on an instance with 16, of which it may use `whole`."""
    given: dict[str, Any] = {"memory_limit": 16 * GIB, "memory_peak": int(15.5 * GIB)}
    given |= {"memory_pressure": 0.3, **fields.pop("use", {})}
    placed = on_instance(name, prices=fields.pop("prices", ()))
    kind = placed["machine"].instance.type
    whole = fields.pop("whole", kind.memory if kind else 16 * GIB)
    placed["machine"] = replace(placed["machine"], memory_limit=whole)
    return fed(**{**placed, "container": short(**given), **fields})


silent = [
    # no instance that is known, or no sign of a shortage
    fed(container=short(memory_pressure=0.3)),
    _job("x9.large"),
    _job(container=None),
    _job(use={"memory_pressure": 0.0}),
    # near the end, and nothing suffers
    _job(use={"memory_pressure": 0.0, "memory_peak": int(15.9 * GIB)}),
    # the peak is not known, or far from the end: the container or others are the cause
    _job(use={"memory_peak": None}),
    _job(use={"memory_peak": 3 * GIB}),
    _job(whole=4 * GIB),
    # it trains on the CPU
    _job(device=CPU),
    # none has more
    _job("g5.16xlarge", use={"memory_limit": 256 * GIB, "memory_peak": 255 * GIB}),
]

fires = [
    _job(),
    _job(prices=PRICES),
    _job("ml.g5.xlarge"),
    _job(use={"memory_pressure": None, "memory_events": (("oom_kill", 1),)}),
    _job(use={"memory_limit": None}),
]

"""What cases of `_memory_signs` are made of."""

from __future__ import annotations

from typing import Any

from trainperf.fixes.common.words import GIB
from trainperf.model import ContainerUse


def short(**use: Any) -> ContainerUse:
    """Twenty seconds in a container of 8 GiB."""
    usual: dict[str, Any] = {
        "memory_limit": 8 * GIB,
        "memory_peak": 4 * GIB,
        "memory_pressure": 0.0,
        "memory_events": (("max", 0), ("oom_kill", 0)),
        "swapped_in": 0,
        "swapped_out": 0,
        "pressure_of": "container",
    }
    return ContainerUse(20.0, **(usual | use))

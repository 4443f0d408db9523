"""Evidence of loops that wait for their input, for the cases of the host."""

from __future__ import annotations

from typing import Any

from fixes.cases.common.cases import evidence
from trainperf.model import Evidence, Stage


def starved(
    *stages: Stage,
    real: float | None = 0.1,
    resident: float | None = 0.02,
    **fields: Any,
) -> Evidence:
    """A loop whose step takes 20 ms and waits 80 ms for what the stages deliver."""
    fields.setdefault("input", real)
    return evidence(real=real, resident=resident, stages_=stages, **fields)


def fed(*stages: Stage, **fields: Any) -> Evidence:
    """The same stages in a loop that hardly waits: no input fix may speak."""
    return evidence(real=0.1, resident=0.097, input=0.08, stages_=stages, **fields)

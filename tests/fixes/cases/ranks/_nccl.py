"""What cases of `_nccl` are made of."""

from __future__ import annotations

from typing import Any

from fixes.cases.ranks._parallel_cases import NCCL, on_gpus, parallel_evidence
from trainperf.model import Evidence


def with_variables(given: dict[str, str] | None, **fields: Any) -> Evidence:
    """A job on two GPUs whose exchange costs 40 of 100 ms, and its variables."""
    parallel = {"exchange": NCCL, **fields.pop("parallel", {})}
    facts = {} if given is None else {"nccl_environment": given}
    return parallel_evidence(parallel=parallel, facts=facts, **{**on_gpus(), **fields})

"""NCCL's variables in the environment, and the cases of the fixes that read them."""

from __future__ import annotations

from trainperf.errors import NotMeasured
from trainperf.fixes.common.words import worth
from trainperf.fixes.ranks._exchange import bound_by_share, exchange, exchange_said
from trainperf.model import Evidence


def uses_nccl(evidence: Evidence) -> bool:
    """Say whether gradients are exchanged by NCCL; raises `NotMeasured` if nothing was seen."""
    return "nccl" in exchange(evidence).backend.lower()


def variables(evidence: Evidence) -> dict[str, str]:
    """Return the variables of NCCL and libfabric; raises `NotMeasured` if not known.

    They are the fact `nccl_environment`: NCCL_* and FI_* of the training process.
    """
    given = evidence.fact("nccl_environment")
    if not isinstance(given, dict):
        raise NotMeasured("the variables of NCCL are not known")
    return {str(name): str(value).strip() for name, value in given.items()}


def priced(evidence: Evidence) -> tuple[float | None, str, str, bool]:
    """Bound, its basis, what the exchange takes as a sentence, and whether it is worth telling.

    Without a bound where the exchange was not measured.
    """
    try:
        bound = bound_by_share(evidence)
    except NotMeasured:
        return None, "not measured", "", True
    basis = "no time spent on the exchange of gradients"
    return bound, basis, f" {exchange_said(evidence)}.", worth(evidence, bound)

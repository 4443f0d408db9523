"""The cases of `tf_retracing`."""

from __future__ import annotations

from typing import Any

from fixes.cases.common.cases import OTHER_SITE, SITE, evidence
from fixes.cases.tf_step._retracing_examples import EXAMPLES
from trainperf.model import ChangingNumber, Retracing


def _retracing(
    count: int, seconds: float, cause: str = "the shape of x", **fields: Any
) -> Retracing:
    return Retracing("train_step", count, 60, seconds, cause, SITE, **fields)


WEIGHT = ChangingNumber(OTHER_SITE, 1, "weight", "float32")

silent = [
    evidence(),
    # the smaller last batch
    evidence(retracing=_retracing(1, 0.9)),
    # the last batch, and that of validation
    evidence(retracing=_retracing(2, 2.0)),
    # recurring, but cheap
    evidence(retracing=_retracing(4, 0.02)),
    evidence(real=None, retracing=_retracing(20, 3.0)),
    # one trace per bucket of lengths, all before the steps were timed
    evidence(retracing=_retracing(8, 3.0)),
    evidence(retracing=_retracing(8, 12.0)),
]

fires = [
    evidence(resident=0.045, retracing=_retracing(20, 3.0)),
    # a number that changes is traced anew with a replayed batch as well
    evidence(retracing=_retracing(60, 4.0, "a Python int among the arguments changes")),
    evidence(
        retracing=_retracing(60, 4.0, "the Python number `weight`", numbers=(WEIGHT,)),
    ),
    evidence(resident=0.045, retracing=Retracing("train_function", 12, 60, 3.0)),
    # relaxed already, or compiled by XLA: only advice
    evidence(resident=0.045, retracing=_retracing(20, 3.0, relaxed=True)),
    evidence(resident=0.045, retracing=_retracing(20, 3.0, jit=True)),
]

tries_not = [
    evidence(),
    # the smaller last batch
    evidence(retracing=_retracing(1, 0.9)),
    # relaxed already, or compiled by XLA
    evidence(retracing=_retracing(8, 3.0, relaxed=True)),
    evidence(retracing=_retracing(8, 3.0, jit=True)),
    # Keras's own function
    evidence(retracing=Retracing("train_function", 12, 60, 3.0)),
    evidence(resident=0.010, input=0.1, retracing=_retracing(8, 3.0)),
]

tries = [
    evidence(retracing=_retracing(2, 2.0)),
    evidence(retracing=_retracing(4, 0.02)),
    evidence(real=None, retracing=_retracing(20, 3.0)),
    evidence(retracing=_retracing(8, 12.0, "the Python number `weight`", numbers=(WEIGHT,))),
]

examples = EXAMPLES

"""The learning rate that a larger batch asks for, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trainperf.errors import NotMeasured
from trainperf.model import Evidence

LINEAR = ("sgd",)
"""Optimizers whose rate is scaled with the batch (Goyal et al., "Accurate, Large Minibatch SGD",
2017); those that divide by the size of the gradient, with its square root (Krizhevsky, "One weird
trick", 2014; Malladi et al., "On the SDEs and Scaling Rules for Adaptive Gradient Algorithms",
2022)."""


def adjusted(evidence: Evidence, size: int | None, larger: Sequence[int]) -> str:
    """Say how the learning rate is usually scaled, with the numbers of this run if they are known.

    `size` is the batch of the script, `larger` how many times as large others are.
    """
    optimizer, rate, scheduled = _rate(evidence)
    if not optimizer:
        return "A common rule scales it with the batch for SGD, and with its square root for Adam."
    linear = optimizer.lower() in LINEAR
    rule = "with the batch" if linear else "with the square root of the batch"
    text = f"A common rule scales that of {optimizer} {rule}"
    if rate is None or not size:
        return f"{text}."
    if scheduled:
        return f"{text}, and with it the whole schedule."
    grown = (
        f"{rate * (times if linear else math.sqrt(times)):.2g} for {times * size}"
        for times in larger
    )
    return f"{text}: it was {rate:.2g} in this run, which makes {' and '.join(grown)}."


def _rate(evidence: Evidence) -> tuple[str, float | None, bool]:
    """The optimizer's class, its rate if that is known, and whether a schedule sets it."""
    if evidence.framework.name == "torch" and not evidence.framework.on_other_backend:
        try:
            optimizer = evidence.torch.optimizer
        except NotMeasured:
            return "", None, False
        return optimizer.cls, optimizer.learning_rate, optimizer.scheduled
    try:
        model = evidence.model
    except NotMeasured:
        return "", None, False
    return model.optimizer, model.learning_rate, model.learning_rate_scheduled

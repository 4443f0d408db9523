"""A batch too small to keep the device busy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.seen import seen_in_call
from trainperf.fixes.common.step import (
    at_most,
    bound_by,
    bound_if_saved,
    gpu_busy,
    no_faster,
    saved_by,
    step_can_matter,
)
from trainperf.fixes.common.words import percent, times, worth
from trainperf.fixes.practice._batch_size_edits import chosen, enlarge
from trainperf.model import Equivalence, Evidence, Finding, Measure, Probe

if TYPE_CHECKING:
    from trainperf.rewrite import Script


CPU_LEAST = 1.30
"""Gain in samples per second by doubling the batch from which it is told, on a CPU."""

GPU_LEAST = 1.15
"""The same on a GPU, where idle time confirms it."""

GPU_IDLE_BELOW = 0.70
"""Utilisation below which a GPU has room for more (the line of SageMaker's BatchSize rule)."""

LARGER = (2, 4)
"""How many times as large the batches are that are tried."""

_LINEAR = ("sgd",)
"""Optimizers whose rate is scaled with the batch (Goyal et al., "Accurate, Large Minibatch SGD",
2017); those that divide by the size of the gradient, with its square root (Krizhevsky, "One weird
trick", 2014; Malladi et al., "On the SDEs and Scaling Rules for Adaptive Gradient Algorithms",
2022)."""


class LargerBatch(Fix):
    """Try a larger batch.

    ## Why it is slow
    Each step has a cost that does not depend on the batch: starting the kernels,
    updating the weights, the framework's own work. A small batch pays it often, and
    leaves most of a GPU's units without work.

    ## What changes
    Twice the batch takes less than twice the time, so an epoch gets shorter. But there
    are half as many updates in it, so the course of training changes. In Keras, a
    `steps_per_epoch` that does not follow is divided along: an epoch keeps its samples.

    ## When not to
    - Adjust the learning rate: a common rule is to scale it with the batch for SGD, and
      with its square root for Adam. Compare the accuracy, not only the speed.
    - Very large batches can generalise worse.
    - More memory is needed.
    """

    category = "model"
    usual = 1.5
    probed_by = "double_batch"
    equivalence = Equivalence.SEMANTICS
    framework = "any"

    def decided_by(self, made: Probe, finding: Finding, evidence: Evidence) -> bool:
        """Return whether it ran so large a batch; what comes once a step is then half as often."""
        twice = finding.data.get("samples_per_step") == 2
        return twice and no_faster(evidence.times.real, made, made.base_s)

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a step that does clearly more samples per second with twice the batch."""
        probe = evidence.probe("double_batch")
        busy = gpu_busy(evidence)
        idle = ""
        if evidence.device.kind == "GPU":
            if busy is None or busy >= GPU_IDLE_BELOW or probe.low < GPU_LEAST:
                return None
            idle = f", and the GPU was busy for {percent(busy)} of the step"
        elif probe.low < CPU_LEAST:
            return None
        if not worth(evidence, bound_by(evidence, probe)):
            return None
        made = chosen(evidence)
        larger = probe if made is None else replace(probe, ratio=_by_most(probe.ratio))
        saved = saved_by(evidence, larger) + _around(evidence, 2 if made is None else LARGER[-1])
        bound = bound_if_saved(evidence, saved)
        text = (
            f"With twice the batch, the step did {times(probe.ratio)} as many samples per "
            f"second in this run{idle}."
        )
        basis = "samples per second, measured by a probe of the step in this run"
        if made is not None:
            basis = f"samples per second with {LARGER[-1]} times the batch, by a probe with twice"
        title = "The batch{of} is too small to keep the device busy"
        return self._finding(evidence, title, text, bound, basis)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try larger batches wherever the size is written down."""
        if chosen(evidence) is None or not step_can_matter(evidence):
            return None
        probe = evidence.probes.get("double_batch")
        probed = isinstance(probe, Probe)
        ratio = _by_most(probe.high) if isinstance(probe, Probe) else LARGER[-1]
        most = at_most(evidence, ratio, rest=LARGER[-1])
        basis = f"samples per second with {LARGER[-1]} times the batch, "
        basis += "by a probe with twice" if probed else "which takes as long as one: not probed"
        text = "Each step has a cost that does not depend on the batch."
        return self._finding(evidence, "The batch{of} may be larger", text, most, basis)

    def _finding(
        self, evidence: Evidence, title: str, text: str, bound: float | None, basis: str
    ) -> Finding:
        size = evidence.loop.batch_size
        made = chosen(evidence)
        larger = " or ".join(str(times * size) for times in LARGER) if size else "twice as many"
        where = made[0] if made else evidence.loop.where
        fit = evidence.loop.where if made is not None and evidence.loop.kind == "fit" else None
        return self.finding(
            title=title.format(of=f" of {size}" if size else ""),
            text=text,
            bound=bound,
            bound_basis=basis,
            where=tuple(dict.fromkeys(one for one in (where, fit) if one)),
            advice=f"Try a batch of {larger} samples, with the learning rate adjusted, and compare "
            f"the accuracy reached. {adjusted(evidence, size, LARGER)}",
            snippet=f"batch_size = {2 * size}" if size else "batch_size = 2 * batch_size",
            rewritable=made is not None and made[0].exact,
            data=_data(evidence, made[1]) if made else {},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Multiply the batch size where it is chosen."""
        fit = finding.where[1] if len(finding.where) > 1 else None
        enlarge(script, finding.where[0], finding.data, fit)


def _data(evidence: Evidence, size: int) -> dict[str, Any]:
    """Return the data of the edit, and of its trials, which compare samples, not steps."""
    return {
        "batch_size": size,
        **seen_in_call(evidence, batch_size=size),
        "variants": [{"batch": times * size, "samples_per_step": times} for times in LARGER],
        "samples_per_step": LARGER[0],
    }


def _around(evidence: Evidence, times: int) -> float:
    """Seconds by which what stands around the model's step gets shorter, for as many samples."""
    real, resident = evidence.times.real, evidence.times.resident_
    around = real - resident.seconds if isinstance(resident, Measure) else 0.0
    return max(0.0, around) * (1 - 1 / times)


def _by_most(ratio: float) -> float:
    """Return the gain in samples of the largest batch, from that of twice the batch.

    A step takes a + b·n for n samples: where a part of it does not depend on the batch.
    """
    grows = max(0.0, 2 / ratio - 1)  # b, where a + b is the step as it is
    return LARGER[-1] / (1 + (LARGER[-1] - 1) * grows)


def adjusted(evidence: Evidence, size: int | None, larger: Sequence[int]) -> str:
    """Say how the learning rate is usually scaled, with the numbers of this run if they are known.

    `size` is the batch of the script, `larger` how many times as large others are.
    """
    optimizer, rate, scheduled = _rate(evidence)
    if not optimizer:
        return "A common rule scales it with the batch for SGD, and with its square root for Adam."
    linear = optimizer.lower() in _LINEAR
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

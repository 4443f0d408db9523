"""A batch too small to keep the device busy."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes._cases import GPU, SITE, evidence, probe
from trainperf.fixes._step import bound_by, gpu_utilization
from trainperf.fixes._torch_cases import torch_evidence
from trainperf.fixes._words import percent, times, worth
from trainperf.model import Equivalence, Evidence, Finding, Loop, PhaseUse

CPU_LEAST = 1.30
"""Gain in samples per second by doubling the batch from which it is told, on a CPU."""

GPU_LEAST = 1.15
"""The same on a GPU, where idle time confirms it."""

GPU_IDLE_BELOW = 0.70
"""Utilisation below which a GPU has room for more (the line of SageMaker's BatchSize rule)."""

SMALL = Loop("fit", where=SITE, batch_size=8, epochs=10, epoch_steps=1000, input_kind="tf.data")


def _gpu(percent: float) -> tuple[PhaseUse, ...]:
    return (PhaseUse("resident", 20, gpu=({"utilization_percent": percent},)),)


class LargerBatch(Fix):
    """Try a larger batch.

    ## Why it is slow
    Each step has a cost that does not depend on the batch: starting the kernels,
    updating the weights, the framework's own work. A small batch pays it often, and
    leaves most of a GPU's units without work.

    ## What changes
    Twice the batch takes less than twice the time, so an epoch gets shorter. But there
    are half as many updates in it, so the course of training changes.

    ## When not to
    - Adjust the learning rate: a common rule is to scale it with the batch for SGD, and
      with its square root for Adam. Compare the accuracy, not only the speed.
    - Very large batches can generalise worse.
    - More memory is needed; only twice the batch was tried here.
    """

    category = "model"
    equivalence = Equivalence.SEMANTICS
    framework = "any"

    silent = [
        evidence(),
        evidence(loop=SMALL, probes={"double_batch": probe(1.10)}),
        # the interval reaches below the line
        evidence(loop=SMALL, probes={"double_batch": probe(1.4, spread=0.1)}),
        # a GPU that is busy, and one whose utilisation is not known
        evidence(device=GPU, loop=SMALL, use=_gpu(95), probes={"double_batch": probe(1.5)}),
        evidence(device=GPU, loop=SMALL, probes={"double_batch": probe(1.5)}),
        # input-bound: a sample still has to be read
        evidence(loop=SMALL, resident=0.010, input=0.098, probes={"double_batch": probe(1.8)}),
        # PyTorch
        torch_evidence(),
        torch_evidence(probes={"double_batch": probe(1.2)}),
        torch_evidence(device=GPU, use=_gpu(95), probes={"double_batch": probe(1.5)}),
        torch_evidence(resident=0.010, input=0.098, probes={"double_batch": probe(1.8)}),
    ]
    fires = [
        evidence(loop=SMALL, probes={"double_batch": probe(1.7)}),
        evidence(device=GPU, loop=SMALL, use=_gpu(40), probes={"double_batch": probe(1.3)}),
        evidence(loop=Loop("call", where=SITE), probes={"double_batch": probe(1.7)}, models=()),
        torch_evidence(probes={"double_batch": probe(1.7)}),
        torch_evidence(device=GPU, use=_gpu(40), probes={"double_batch": probe(1.9)}),
        # a loop without a DataLoader
        torch_evidence(
            real=0.012,
            resident=None,
            input=None,
            loader=None,
            loop=Loop("update", where=SITE),
            probes={"double_batch": probe(1.7)},
        ),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a step that does clearly more samples per second with twice the batch."""
        probe = evidence.probe("double_batch")
        busy = gpu_utilization(evidence)
        idle = ""
        if evidence.device.kind == "GPU":
            if busy is None or busy >= GPU_IDLE_BELOW or probe.low < GPU_LEAST:
                return None
            idle = f", and the GPU was busy for {percent(busy)} of the step"
        elif probe.low < CPU_LEAST:
            return None
        bound = bound_by(evidence, probe)
        if not worth(evidence, bound):
            return None
        size = evidence.loop.batch_size
        given = f" of {size}" if size else ""
        larger = f"a batch of {2 * size}" if size else "twice the batch"
        where = evidence.loop.where
        return self.finding(
            title=f"The batch{given} is too small to keep the device busy",
            text=f"With twice the batch, the step did {times(probe.ratio)} as many samples per "
            f"second in this run{idle}.",
            bound=bound,
            bound_basis="samples per second, measured by a probe of the step in this run",
            where=(where,) if where else (),
            advice=f"Try {larger}, with the learning rate adjusted, and compare the accuracy "
            "reached.",
            snippet=f"batch_size = {2 * size}" if size else "batch_size = 2 * batch_size",
        )

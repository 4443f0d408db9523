"""Several GPUs, of which the training uses one."""

from __future__ import annotations

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.words import times, worth
from trainperf.fixes.ddp._edits import TO_DDP
from trainperf.model import Equivalence, Evidence, Finding, is_taken

IDLE = 0.05
"""Utilisation below which nobody uses a GPU: a desktop's own drawing stays under it."""


TENSORFLOW = """\
strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    model = make_model()
    model.compile(...)
dataset = dataset.batch({count} * batch_size)  # the global batch"""


class OneGpuOfMany(Fix):
    """Train on all GPUs, not on one of them.

    ## Why it is slow
    A script that asks for nothing trains on the first GPU. The others are there, and do
    nothing.

    ## What changes
    A copy of the model on each GPU: `torchrun` with `DistributedDataParallel`, or
    `MirroredStrategy`. The global batch is that of one GPU times their number, so there
    are fewer updates in an epoch.

    ## When not to
    - The other GPUs belong to other jobs: show this one its own by CUDA_VISIBLE_DEVICES.
    - The exchange of gradients takes time as well. Small models gain little or nothing.
    - The input must keep up with all of them.
    - Adjust the learning rate to the global batch, and compare the accuracy reached.
    """

    category = "model"
    equivalence = Equivalence.SEMANTICS
    without_edit = (
        "a strategy, or a launcher, changes how the script is started and its global batch"
    )
    framework = "any"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a process that sees several GPUs, computes on one, and no other job on the rest."""
        device = evidence.device
        seen = len(device.gpus)
        if len(device.used) != 1 or seen < 2 or device.used[0].mig:
            return None
        if evidence.parallel_ is not None or evidence.loop.strategy:
            return None
        if evidence.facts.get("model_devices"):
            return None
        idle = _idle(evidence)
        count = seen if idle is None else idle + 1
        most = float(count)
        if is_taken(evidence.times.input_):
            most = min(most, evidence.times.real / max(evidence.times.input, 1e-9))
        if count < 2 or not evidence.times.real or not worth(evidence, most):
            return None
        use = "" if idle is None else f" {idle} did nothing while it trained."
        limit = f" The input would keep up with {times(most)} the speed." if most < count else ""
        torch = evidence.framework.name == "torch"
        where = evidence.loop.where
        return self.finding(
            title=f"The script trains on one of {seen} GPUs",
            text=f"The process sees {seen} × {device.name} and trains on one.{use}{limit}",
            bound=most,
            bound_basis=f"at most: {count} GPUs without any exchange, "
            f"as fast as the input can feed them"
            if most < count
            else f"at most: {count} GPUs without any exchange",
            where=(where,) if where else (),
            advice="Train a copy of the model on each GPU, with the learning rate adjusted to the "
            "larger global batch.",
            snippet=TO_DDP.format(replicas=count, batch="batch_size")
            if torch
            else TENSORFLOW.format(count=count),
        )


def _idle(evidence: Evidence) -> int | None:
    """How many other GPUs that the process sees did nothing in the real steps, by NVML.

    None where they were not sampled, or it is not known which they are. What NVML says is an
    upper bound, so that it tells who is idle.
    """
    others = {gpu.index for gpu in evidence.device.gpus if not gpu.used}
    try:
        gpus = {use["index"]: use.get("utilization_percent") for use in evidence.phase("real").gpu}
    except NotMeasured:
        return None
    shares = [gpus.get(index) for index in others if index is not None]
    if None in others or None in shares:
        return None
    return len([share for share in shares if share is not None and share / 100 < IDLE])

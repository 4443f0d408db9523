"""Several GPUs, of which the training uses one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.cases import CPU, GPU, evidence, machine
from trainperf.fixes.common.torch_cases import torch_evidence
from trainperf.fixes.common.words import times, worth
from trainperf.fixes.ddp._edits import TO_DDP
from trainperf.fixes.ranks._parallel_cases import job, on_gpus, parallel_evidence
from trainperf.model import CudaDevice, Equivalence, Evidence, Finding, Gpu, PhaseUse, is_taken

IDLE = 0.05
"""Utilisation below which nobody uses a GPU: a desktop's own drawing stays under it."""


TENSORFLOW = """\
strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    model = make_model()
    model.compile(...)
dataset = dataset.batch({count} * batch_size)  # the global batch"""


def _gpus(count: int = 4, used: int = 1) -> dict[str, Any]:
    """A process that sees so many GPUs and trains on the first ones of them."""
    cards = tuple(Gpu(index, GPU.name) for index in range(count))
    return {"device": replace(GPU, count=used), "machine": machine(gpus=cards)}


def _cuda(count: int, used: int = 0, **fields: Any) -> dict[str, Any]:
    """The same where NVML is missing: CUDA alone tells of GPUs."""
    shown = tuple(
        CudaDevice(number, GPU.name, used=number == used, **fields) for number in range(count)
    )
    return {"device": replace(GPU, gpus=shown)}


def _busy(*percents: float | None) -> tuple[PhaseUse, ...]:
    return (
        PhaseUse(
            "real",
            20,
            gpu=tuple(
                {"index": index, "utilization_percent": one} for index, one in enumerate(percents)
            ),
        ),
    )


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

    silent = [
        evidence(),
        torch_evidence(),
        # one GPU, or one that is shown
        torch_evidence(device=GPU),
        torch_evidence(**_cuda(1)),
        # several are used
        parallel_evidence(**on_gpus(4)),
        torch_evidence(**_gpus(2, used=2)),
        torch_evidence(**_gpus(4, used=2), use=_busy(90.0, 70.0, 0.0, 0.0)),
        torch_evidence(**_gpus(2), facts={"model_devices": {"devices": {"cuda:0": 1}}}),
        # a rank of a job, each of which sees all and uses its own
        torch_evidence(**_gpus(8), parallel_=job()),
        # all but one are in use by others
        torch_evidence(**_gpus(4), use=_busy(90.0, 99.0, 99.0, 99.0)),
        # the input could not feed two
        torch_evidence(**_gpus(4), input=0.099),
        # GPUs are seen, and the training computes on the CPU
        torch_evidence(machine=_gpus()["machine"]),
        torch_evidence(
            device=replace(CPU, gpus=tuple(CudaDevice(n, GPU.name, used=False) for n in range(8)))
        ),
        # slices of one card: a process can have one
        torch_evidence(**_cuda(2, mig=True)),
        # nothing was timed
        torch_evidence(**_gpus(), real=None),
    ]
    fires = [
        torch_evidence(**_gpus()),
        # a p4d that trains on one GPU of eight, without NVML, on the last one
        torch_evidence(**_cuda(8)),
        torch_evidence(**_cuda(8, used=7)),
        torch_evidence(**_gpus(), use=_busy(80.0, 0.0, 0.0, 0.0)),
        torch_evidence(**_gpus(8), use=_busy(80.0, 0.0, 97.0, 0.0, 0.0, 0.0, 0.0, 0.0)),
        # how busy one of the others is was not told
        torch_evidence(**_gpus(2), use=_busy(80.0, None)),
        torch_evidence(**_gpus(8), input=0.050),
        evidence(**_gpus(2)),
        evidence(**_gpus(2), input=None),
    ]

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

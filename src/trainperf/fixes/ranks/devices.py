"""How many devices train: one of several, all by one process, in turn, or more than pay."""

from __future__ import annotations

import math

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving, Unpriced
from trainperf.fixes.common.words import at, if_measured, ms, recorded_site, times, worth
from trainperf.fixes.ranks._exchange import (
    exchange_said,
    exchange_seconds,
    price_without,
    step_without_exchange,
)
from trainperf.model import Equivalence, Evidence, is_taken

IDLE = 0.05
"""Utilisation below which nobody uses a GPU: a desktop's own drawing stays under it."""

MIRRORED = """\
strategy = tf.distribute.MirroredStrategy()  # the whole model on each device
with strategy.scope():
    model = make_model()
dataset = dataset.batch({count} * batch_size)  # the global batch"""

TO_DDP = """\
# torchrun --nproc_per_node {count} train.py
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

torch.distributed.init_process_group("nccl")
rank = torch.distributed.get_rank() % torch.cuda.device_count()  # on this host
torch.cuda.set_device(rank)
model = DistributedDataParallel(model.to(rank), device_ids=[rank])
sampler = DistributedSampler(dataset)  # sampler.set_epoch(epoch) before each epoch
loader = DataLoader(dataset, batch_size={batch}, sampler=sampler)"""
"""A script of one process as one of several ranks; `count` and `batch` are to be filled in."""


class OneGpuOfMany(Fix):
    """Train on all GPUs, not on one of them.

    Why slow: A script that asks for nothing trains on the first GPU. The others do nothing.
    Changes: A copy of the model on each GPU: `torchrun` with `DistributedDataParallel`, or
    `MirroredStrategy`. The global batch is that of one GPU times their number, so there are fewer
    updates in an epoch.
    When not:
    - The other GPUs belong to other jobs: show this one its own by CUDA_VISIBLE_DEVICES.
    - Small models, whose exchange of gradients takes as long; an input that cannot keep up.
    - Adjust the learning rate to the global batch, and compare the accuracy reached.
    """

    category = "model"
    equivalence = Equivalence.SEMANTICS
    without_edit = (
        "a strategy, or a launcher, changes how the script is started and its global batch"
    )

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a process that sees several GPUs, computes on one, and no other job on the rest."""
        device, real = evidence.device, evidence.times.real
        if len(device.used) != 1 or device.used[0].mig or evidence.facts.get("model_devices"):
            return None
        if evidence.parallel_ is not None or evidence.loop.strategy:
            return None
        seen, idle = len(device.gpus), _idle(evidence)
        count = seen if idle is None else idle + 1
        if count < 2:
            return None
        fed = math.inf
        if is_taken(evidence.times.input_):
            fed = real / max(evidence.times.input, 1e-9)
        limit = f" The input would keep up with {times(fed)} the speed." if fed < count else ""
        where = evidence.loop.where
        return Cause(
            title=f"The script trains on one of {seen} GPUs",
            text=f"The process sees {seen} × {device.name} and trains on one.{limit}",
            saves=Saving(f"at most: {count} GPUs without any exchange", ratio=min(count, fed)),
            where=(where,) if where else (),
            advice="Train a copy of the model on each GPU, with the learning rate adjusted to the "
            "larger global batch.",
            snippet=(TO_DDP if evidence.framework.name == "torch" else MIRRORED).format(
                count=count, batch="batch_size"
            ),
        )


def _idle(evidence: Evidence) -> int | None:
    """How many other GPUs that the process sees did nothing in the real steps, by NVML.

    None where they were not sampled, or it is not known which they are. What NVML says is an
    upper bound, so that it tells who is idle.
    """
    others = [gpu.index for gpu in evidence.device.gpus if not gpu.used]
    try:
        uses = {use["index"]: use.get("utilization_percent") for use in evidence.phase("real").gpu}
    except NotMeasured:
        return None
    shares = [uses.get(index) for index in others if index is not None]
    if None in others or None in shares:
        return None
    return len([share for share in shares if share is not None and share / 100 < IDLE])


class TorchDataParallel(Fix):
    """Start a process for each GPU: `DistributedDataParallel` for `nn.DataParallel`.

    Why slow: `nn.DataParallel` runs all GPUs from one Python process. In each step it copies the
    whole model to every GPU, cuts the batch, gathers all outputs and adds up all gradients on the
    first. The GPUs wait for each other, and for one interpreter.
    Changes: `torchrun` starts a process for each GPU; each keeps its copy of the model, loads its
    own batches and exchanges only gradients, while the backward still runs.
    When not:
    - Batch statistics, metrics and checkpoints are per process: write them in rank 0.
    - The batch size is per process then: divide it by the GPUs to keep the training.
    """

    equivalence = Equivalence.NUMERICS
    without_edit = (
        "one process for each GPU wants a launcher, a sampler and a rank in what is saved"
    )
    framework = "torch"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a `DataParallel` over several GPUs."""
        built = evidence.fact("data_parallel")
        count = len(built.get("device_ids") or ()) if isinstance(built, dict) else 0
        saves = price_without(evidence, "no time spent on copies between the GPUs")
        if count < 2:
            return None
        where, size = recorded_site(built.get("where")), evidence.loop.batch_size
        cost = "" if isinstance(saves, Unpriced) else f" {exchange_said(evidence)}."
        return Cause(
            title=f"One process drives {count} GPUs through nn.DataParallel",
            text=f"`{built.get('model') or 'model'}` is wrapped by `DataParallel`"
            f"{f' in {at(where)}' if where else ''}: in each step it is copied to {count} GPUs, "
            f"and all outputs and gradients come back to the first.{cost}",
            saves=saves,
            where=(where,) if where else (),
            snippet=TO_DDP.format(count=count, batch=size // count if size else "batch_size"),
        )


TOGETHER = 0.15
"""Share of their work that GPUs may do at once and still take turns: a copy while another ends."""

PIPELINE = """\
from torch.distributed.pipelining import ScheduleGPipe

schedule = ScheduleGPipe(stage, n_microbatches=8)  # one stage of the model in each rank
"""


class DevicesTakeTurns(Fix):
    """Give every device something to compute at all times: micro-batches, or whole models.

    Why slow: Layers were placed on several devices by hand. A batch passes from one to the next
    and the gradients back, so one device computes and the others wait for it.
    Changes: Cut into micro-batches, one part of the batch is on each device at a time (a
    pipeline). Where the model fits on one device, a copy on each with a part of the batch keeps
    all busy.
    When not:
    - Batch normalisation takes its statistics of each micro-batch.
    - Parts that take unequally long leave devices idle still: balance them first.
    - Very small batches cannot be cut.
    """

    equivalence = Equivalence.SEMANTICS
    without_edit = "how a model is cut into stages and batches into micro-batches is its design"
    framework = "torch"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a model placed over GPUs, hardly ever two of which were busy at once in a trace."""
        placed, trace = evidence.facts.get("model_devices"), evidence.torch.trace
        names = placed.get("devices", {}) if isinstance(placed, dict) else {}
        count = sum(str(name).startswith("cuda") for name in names)
        if count < 2 or (evidence.parallel_ or evidence.loop).replicas > 1:
            return None
        if trace is None or (trace.together_s or 0.0) > TOGETHER * sum(trace.device_s or ()):
            return None
        where = evidence.loop.where
        return Cause(
            title=f"{count} GPUs take turns: one computes while the others wait",
            text=f"The model is placed over {count} GPUs, and hardly ever two compute at once.",
            saves=Saving(f"at most: {count} GPUs at work all the time", ratio=count),
            where=(where,) if where else (),
            advice="Cut batches into micro-batches and run the parts as a pipeline; if the model "
            "fits on one GPU, train a copy on each.",
            snippet=PIPELINE,
        )


class ParallelNotWorth(Fix):
    """Train on one device, or give each more to do.

    Why slow: N devices do N batches in a step, but the step is longer by the exchange of
    gradients. Where that takes more than the other devices add, the job does fewer samples per
    second than one alone.
    Changes: One device trains with its own batch, or each gets a larger one, for one exchange.
    Both change the global batch, and so the course of training.
    When not:
    - When a cheaper exchange is at hand: buckets, compression, accumulation, NCCL.
    - When the model does not fit on one device.
    - Adjust the learning rate to the global batch, and compare the accuracy reached.
    """

    category = "model"
    equivalence = Equivalence.SEMANTICS
    without_edit = "the script is started on fewer devices, which changes the global batch"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a job that does fewer samples per second than one of its devices would."""
        job, real = evidence.parallel, evidence.times.real
        count = max(job.replicas, job.expected)
        most = max(job.scaling, key=lambda point: point.devices, default=None)
        measured = most is not None and most.devices > 1 and bool(most.efficiency)
        how = "measured" if measured else "by its step without the exchange of gradients"
        if most is not None and most.devices > 1 and most.efficiency:
            ratio = 1 / (most.devices * most.efficiency)
        else:
            ratio = real / (count * step_without_exchange(evidence))
        if not worth(evidence, ratio):
            return None
        cost = if_measured(
            lambda: f", of which the exchange takes {ms(exchange_seconds(evidence))}"
        )
        return Cause(
            title=f"{count} devices {'train' if measured else 'may train'} no faster than one",
            text=f"A step takes {ms(real)} on {count} devices{cost}. One does {times(ratio)} the "
            f"samples per second, {how}.",
            saves=Unpriced("where replicas share cores, one alone would have more of them")
            if not measured and evidence.device.kind != "GPU"
            else Saving(f"samples per second of one device, {how}", ratio=ratio),
            advice="Train on one device, or give each more samples per step, with the learning "
            "rate adjusted to the global batch.",
        )

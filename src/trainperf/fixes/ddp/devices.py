"""GPUs that one process does not use, or drives all alone."""

from __future__ import annotations

import math

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving, Unpriced
from trainperf.fixes.common.step import step_may_matter
from trainperf.fixes.common.words import at, times
from trainperf.fixes.ranks._exchange import exchange_said, price_without, recorded_site
from trainperf.model import Equivalence, Evidence, is_taken

IDLE = 0.05
"""Utilisation below which nobody uses a GPU: a desktop's own drawing stays under it."""

TENSORFLOW = """\
strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    model = make_model()
    model.compile(...)
dataset = dataset.batch({count} * batch_size)  # the global batch"""

TO_DDP = """\
# torchrun --nproc_per_node {replicas} train.py
import os

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

distributed.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
model = DistributedDataParallel(model.to(rank), device_ids=[rank])
sampler = DistributedSampler(dataset)  # sampler.set_epoch(epoch) before each epoch
loader = DataLoader(dataset, batch_size={batch}, sampler=sampler)"""
"""A script of one process as one of several ranks; `replicas` and `batch` are to be filled in."""


class OneGpuOfMany(Fix):
    """Train on all GPUs, not on one of them.

    ## Why it is slow
    A script that asks for nothing trains on the first GPU. The others do nothing.

    ## What changes
    A copy of the model on each GPU: `torchrun` with `DistributedDataParallel`, or
    `MirroredStrategy`. The global batch is that of one GPU times their number, so there
    are fewer updates in an epoch.

    ## When not to
    - The other GPUs belong to other jobs: show this one its own by CUDA_VISIBLE_DEVICES.
    - Small models, whose exchange of gradients takes as long; an input that cannot keep up.
    - Adjust the learning rate to the global batch, and compare the accuracy reached.
    """

    category = "model"
    equivalence = Equivalence.SEMANTICS
    without_edit = (
        "a strategy, or a launcher, changes how the script is started and its global batch"
    )
    framework = "any"

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
        use = "" if idle is None else f" {idle} did nothing while it trained."
        limit = f" The input would keep up with {times(fed)} the speed." if fed < count else ""
        to_ddp = TO_DDP.format(replicas=count, batch="batch_size")
        where = evidence.loop.where
        return Cause(
            title=f"The script trains on one of {seen} GPUs",
            text=f"The process sees {seen} × {device.name} and trains on one.{use}{limit}",
            saves=Saving(
                f"at most: {count} GPUs without any exchange"
                f"{', as fast as the input can feed them' if fed < count else ''}",
                ratio=min(count, fed),
            ),
            where=(where,) if where else (),
            advice="Train a copy of the model on each GPU, with the learning rate adjusted to the "
            "larger global batch.",
            snippet=to_ddp
            if evidence.framework.name == "torch"
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


class TorchDataParallel(Fix):
    """Start a process for each GPU: `DistributedDataParallel` for `nn.DataParallel`.

    ## Why it is slow
    `nn.DataParallel` runs all GPUs from one Python process. In each step it copies the whole
    model to every GPU, cuts the batch, gathers all outputs and adds up all gradients on the
    first. The GPUs wait for each other, and for one interpreter.

    ## What changes
    `torchrun` starts a process for each GPU; each keeps its copy of the model, loads its
    own batches and exchanges only gradients, while the backward still runs.

    ## When not to
    - Batch statistics, metrics and checkpoints are per process: write them in rank 0.
    - The batch size is per process then: divide it by the GPUs to keep the training.
    """

    category = "sync"
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
        if count < 2 or (isinstance(saves, Unpriced) and not step_may_matter(evidence)):
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
            advice="Start a process for each GPU with torchrun, and use DistributedDataParallel.",
            snippet=TO_DDP.format(replicas=count, batch=size // count if size else "batch_size"),
        )

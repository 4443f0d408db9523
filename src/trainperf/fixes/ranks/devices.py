"""How many devices train: one of several, all by one process, or more than pay."""

from __future__ import annotations

import math

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving, Unpriced
from trainperf.fixes.common.words import at, if_measured, ms, recorded_site, times, worth
from trainperf.fixes.ranks._exchange import exchange_seconds, price_without, step_without_exchange
from trainperf.model import Equivalence, Evidence, is_taken

IDLE = 0.05
"""Utilisation below which nobody uses a GPU: a desktop's own drawing stays under it."""

TOGETHER = 0.15
"""Share of their work that GPUs may do at once and still take turns: a copy while another ends."""

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
    """Train on all GPUs, not on one of them at a time.

    Why slow: A script that asks for nothing trains on the first GPU. The others do nothing. Where
    layers were placed on several by hand, a batch passes from one to the next, and the others wait.
    Changes: A copy of the model on each GPU: `torchrun` with `DistributedDataParallel`, or
    `MirroredStrategy`. The global batch is that of one GPU times their number, so there are fewer
    updates in an epoch.
    When not:
    - The other GPUs belong to other jobs: show this one its own by CUDA_VISIBLE_DEVICES.
    - Small models, whose exchange of gradients takes as long; an input that cannot keep up.
    - A model that fits on no GPU alone: cut batches into micro-batches, as a pipeline.
    """

    category = "model"
    equivalence = Equivalence.SEMANTICS
    without_edit = (
        "a strategy, or a launcher, changes how the script is started and its global batch"
    )

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a process that computes on one of several GPUs at a time, no other job there."""
        device, real = evidence.device, evidence.times.real
        if evidence.parallel_ is not None or evidence.loop.strategy:
            return None
        on = (evidence.facts.get("model_devices") or {}).get("devices", {})
        placed = sum(str(name).startswith("cuda") for name in on)
        if placed > 1:
            trace = evidence.torch.trace
            busy = trace.device_s if trace is not None else ()
            if trace is None or len(busy) < 2 or (trace.together_s or 0.0) > TOGETHER * sum(busy):
                return None
            count = placed
            title = f"{count} GPUs take turns: the model is placed over them"
            text = f"Parts of the model lie on {count} × {device.name}, one computes at a time."
        elif len(device.used) != 1 or device.used[0].mig or on:
            return None
        else:
            seen, idle = len(device.gpus), _idle(evidence)
            count = seen if idle is None else idle + 1
            title = f"The script trains on one of {seen} GPUs"
            use = "" if idle is None else f" {idle} did nothing while it trained."
            text = f"The process sees {seen} × {device.name} and trains on one.{use}"
        if count < 2:
            return None
        fed = math.inf
        if is_taken(evidence.times.input_):
            fed = real / max(evidence.times.input, 1e-9)
        limit = f" The input would keep up with {times(fed)} the speed." if fed < count else ""
        where = evidence.loop.where
        return Cause(
            title=title,
            text=f"{text}{limit}",
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
    try:
        uses = {use["index"]: use.get("utilization_percent") for use in evidence.phase("real").gpu}
    except NotMeasured:
        return None
    shares = [uses.get(gpu.index) for gpu in evidence.device.gpus if not gpu.used]
    return None if None in shares else sum((share or 0.0) / 100 < IDLE for share in shares)


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
        return Cause(
            title=f"One process drives {count} GPUs through nn.DataParallel",
            text=f"`{built.get('model') or 'model'}` is wrapped by `DataParallel`"
            f"{f' in {at(where)}' if where else ''}: in each step it is copied to {count} GPUs, "
            f"and all outputs and gradients come back to the first.",
            saves=saves,
            where=(where,) if where else (),
            snippet=TO_DDP.format(count=count, batch=size // count if size else "batch_size"),
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
            behind = max((late.behind_s for late in job.stragglers), default=0.0)
            how += ", less what all wait for the late rank" * bool(behind)  # told and mended apart
            ratio = (1 - behind / real) / (most.devices * most.efficiency)
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

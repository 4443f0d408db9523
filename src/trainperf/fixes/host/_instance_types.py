"""AWS instance types with GPUs, from `data/aws_gpu_instances.json`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from trainperf.errors import NotMeasured
from trainperf.fixes.common.words import GB, GIB, MB, MIB, times, worth
from trainperf.model import Evidence, Instance, InstanceType, Objects
from trainperf.recording.machine.storage import VolumeKind

GIGABIT = GB / 8
"""Bytes per second of one gigabit per second."""

ML = "ml."
"""The prefix of EC2 types in SageMaker."""

WHOLE = 0.90
"""Share of an instance's vCPUs that the script may use, from which the instance is its limit
and not the container that it runs in."""


def instance_type(name: str) -> InstanceType | None:
    """Return the type that EC2 or SageMaker calls `name`, None if it is not in the table."""
    row = _table()["ec2"].get(name.removeprefix(ML))
    return None if row is None else _read(name.removeprefix(ML), row)


def same_gpus(instance: Instance) -> tuple[InstanceType, ...]:
    """Return the other types with as many of the same GPU, smallest first.

    Those that the service of `instance` offers; named as it names them.
    """
    own = instance.type
    if own is None or not own.gpus:
        return ()
    prefix, offered = "", set(_table()["ec2"])
    if instance.service == "sagemaker":
        prefix, offered = ML, {row for row in _table()["ml_training"].values() if row}
    found = [
        _read(name, row, prefix)
        for name, row in _table()["ec2"].items()
        if name in offered and name != own.name.removeprefix(ML)
    ]
    alike = [one for one in found if _gpus(one) == _gpus(own)]
    return tuple(sorted(alike, key=lambda one: (one.vcpus, one.memory, one.name)))


def _gpus(kind: InstanceType) -> tuple[str, int, int | None]:
    return kind.gpu, kind.gpus, kind.gpu_memory


def _read(name: str, row: dict[str, Any], prefix: str = "") -> InstanceType:
    """Read a row. Of an "up to" type, what lasts is the baseline of its network card.

    The sum over cards is not used otherwise: for types with several it contradicts the
    headline figure (see the note in the file).
    """
    gpus = row["gpus"]
    most = row["net_gbps"]
    lasts = row["net_base_gbps"] if row["net_burst"] else most
    model = gpus[0]["model"] if gpus else ""
    return InstanceType(
        name=prefix + name,
        vcpus=row["vcpus"],
        memory=int(row["mem_gib"] * GIB),
        gpus=sum(gpu["count"] for gpu in gpus),
        gpu=f"a part of an {model}" if gpus and not gpus[0]["count"] else model,
        gpu_memory=gpus[0]["mem_mib"] * MIB if gpus else None,
        network_bytes_s=None if lasts is None else lasts * GIGABIT,
        network_burst_bytes_s=None if most is None else most * GIGABIT,
        ebs_bytes_s=row["ebs_base_MBps"] * MB,
        ebs_burst_bytes_s=row["ebs_max_MBps"] * MB,
        ebs_iops=row["ebs_base_iops"],
        nvme_bytes=row["nvme_gb"] * GB,
        efa=row["efa"],
        source=f"AWS describe-instance-types, as recorded in {row['src'].replace('-', ' ')}",
    )


@cache
def _table() -> dict[str, Any]:
    text = files("trainperf").joinpath("data/aws_gpu_instances.json").read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table


def here(evidence: Evidence) -> tuple[Instance, InstanceType]:
    """Return the instance and its type; raises `NotMeasured` where no advice can be given.

    The type must be known and have GPUs, and one process must train on all of them:
    what one of several processes uses is not the whole demand.
    """
    instance = evidence.machine.instance
    if instance is None or instance.type is None or not instance.type.gpus:
        raise NotMeasured("it is not known to run on an AWS instance with GPUs")
    job = evidence.parallel_
    if (job is not None and job.expected > 1) or instance.hosts > 1:
        raise NotMeasured("several processes train, of which one was sampled")
    used = 1 if job is None else job.replicas
    if evidence.device.kind != "GPU" or used < instance.type.gpus:
        raise NotMeasured("the script does not train on all GPUs of the instance")
    return instance, instance.type


def has_all_cores(evidence: Evidence, kind: InstanceType) -> bool:
    """Say whether the script may use (nearly) all vCPUs of the instance."""
    return evidence.machine.cores >= WHOLE * kind.vcpus


def price_said(evidence: Evidence, name: str) -> str:
    """Say what type `name` costs against this one; where prices are not known, say that."""
    instance = evidence.machine.instance
    ratio = None if instance is None else instance.price_ratio(name)
    if ratio is None:
        return "at a price to be looked up"
    return f"for {times(ratio)} the price (on demand, {instance.region if instance else ''})"


def change_said(instance: Instance, name: str) -> str:
    """Return how to move to type `name`, to paste."""
    if instance.service == "sagemaker":
        return f'instance_type = "{name}"  # of the training job'
    return (
        "# while the instance is stopped\n"
        "aws ec2 modify-instance-attribute --instance-id INSTANCE"
        f" --instance-type Value={name}"
    )


AT_LIMIT = (0.80, 1.15)
"""Between these shares of what lasts and of what is reached for a while, a rate that was
measured is the instance's limit. Below it is the volume's, or the reader's own."""

SHORT = 1.10
"""How many times the rate reached the step must need."""

Limit = Callable[[InstanceType], tuple[float | None, float | None]]
"""The rates at which a type can read, bytes per second: lasting, and in bursts."""


@dataclass(frozen=True)
class Shortage:
    """An instance whose limit was reached, and the type that has more; bytes per second.

    `what` names what is read. `bound` is the upper bound of the speed-up.
    """

    instance: Instance
    own: InstanceType
    what: str
    reached: float
    needed: float
    lasts: float
    better: InstanceType
    better_lasts: float
    bound: float


@dataclass(frozen=True)
class Flow:
    """A flow of data: its name, the rate that it reached, and the one that the step needs."""

    what: str
    reached: float
    needed: float


def shortage(evidence: Evidence, flow: Flow | None, limit: Limit) -> Shortage | None:
    """Return what is lacking where the step waits for a flow at the limit of the instance.

    None where the data of an epoch fits into memory: then only the first one waits.
    Raises `NotMeasured`.
    """
    instance, own = here(evidence)
    lasts, most = limit(own)
    if flow is None or lasts is None or not evidence.input_bound:
        return None
    low, high = AT_LIMIT
    if not low * lasts <= flow.reached <= high * max(lasts, most or 0.0):
        return None
    if flow.needed < SHORT * flow.reached or _stays_in_memory(evidence, flow):
        return None
    more = [
        (kind, rate)
        for kind in same_gpus(instance)
        if (rate := limit(kind)[0]) is not None and rate > max(lasts, flow.reached)
    ]
    if not more:
        return None
    enough = [one for one in more if one[1] >= flow.needed]
    better, rate = enough[0] if enough else max(more, key=lambda one: one[1])
    step_bytes = flow.needed * evidence.times.resident
    saved = step_bytes / flow.reached - step_bytes / min(rate, flow.needed)
    bound = evidence.bound_if_input_saves(saved)
    if not worth(evidence, bound):
        return None
    return Shortage(instance, own, flow.what, flow.reached, flow.needed, lasts, better, rate, bound)


def files_on(evidence: Evidence, kinds: tuple[VolumeKind, ...]) -> Flow | None:
    """Return what is read from volumes of these kinds, None where that was not measured.

    The rate reached is the best of files that the kernel had dropped from memory, on the
    volume that the step needs most from.
    """
    found = [one for one in evidence.reads if one.volume.kind in kinds and one.needed_bytes_s]
    most = max(found, key=lambda one: one.needed_bytes_s or 0.0, default=None)
    if most is None or not most.best_cold_bytes_s:
        return None
    needed = sum(one.needed_bytes_s or 0.0 for one in found)
    return Flow(
        f"Files on {most.volume.mount} that were not in memory", most.best_cold_bytes_s, needed
    )


def objects(evidence: Evidence) -> Flow | None:
    """Return what is read from S3, None where that was not measured.

    The rate reached is the best that the probe saw at any number of requests at once.
    """
    known = [one for one in evidence.objects if one.requests_per_step and one.mean_object_bytes]
    if not known or evidence.times.resident <= 0:
        return None
    most = max(known, key=_step_bytes)
    reached = max((rate for _, rate in most.throughput), default=None)
    if not reached:
        return None
    needed = sum(_step_bytes(one) for one in known) / evidence.times.resident
    return Flow(f"Objects of {most.bucket}", reached, needed)


def rate_said(value: float) -> str:
    """Say a rate as AWS does: "87.5 MB/s"."""
    return f"{value / MB:,.3g} MB/s" if value < 1000 * MB else f"{value / MB:,.0f} MB/s"


def _step_bytes(one: Objects) -> float:
    return (one.requests_per_step or 0.0) * (one.mean_object_bytes or 0.0)


def _stays_in_memory(evidence: Evidence, flow: Flow) -> bool:
    """Whether an epoch's data fits into free memory, and is read more than once."""
    steps = evidence.loop.epoch_steps
    if not steps or evidence.loop.epochs == 1:
        return False
    return flow.needed * evidence.times.resident * steps < evidence.machine.memory_available

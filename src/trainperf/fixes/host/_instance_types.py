"""AWS instance types with GPUs, from `data/aws_gpu_instances.json`."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from trainperf.errors import NotMeasured
from trainperf.fixes.common.words import GB, GIB, MB, MIB, times
from trainperf.model import Evidence, Instance, InstanceType

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

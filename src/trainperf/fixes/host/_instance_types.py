"""AWS instance types with GPUs, from `data/aws_gpu_instances.json`."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from trainperf.fixes.common.words import GB, GIB, MB, MIB
from trainperf.model import Instance, InstanceType

GIGABIT = GB / 8
"""Bytes per second of one gigabit per second."""

ML = "ml."
"""The prefix of EC2 types in SageMaker."""


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
    gpus = (own.gpu, own.gpus, own.gpu_memory)
    alike = [kind for kind in found if (kind.gpu, kind.gpus, kind.gpu_memory) == gpus]
    return tuple(sorted(alike, key=lambda kind: (kind.vcpus, kind.memory, kind.name)))


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

"""What cases of `_instances` are made of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from fixes.cases.common.cases import GPU, machine
from trainperf.fixes.common.words import GIB
from trainperf.fixes.host._instance_types import instance_type
from trainperf.model import Gpu, Instance


def on_instance(name: str = "g5.xlarge", **fields: Any) -> dict[str, Any]:
    """The fields that put a case on an instance of type `name`, one process on its GPUs."""
    service: Literal["ec2", "sagemaker"] = "sagemaker" if name.startswith("ml.") else "ec2"
    prices, hosts = fields.pop("prices", ()), fields.pop("hosts", 1)
    kind = instance_type(name)
    fields.setdefault("cores", kind.vcpus if kind else 4)
    fields.setdefault("available", kind.memory // 2 if kind else 8 * GIB)
    fields.setdefault(
        "gpus", tuple(Gpu(index, "A10G") for index in range(kind.gpus if kind else 1))
    )
    return {
        "device": GPU,
        "machine": replace(
            machine(**fields),
            instance=Instance(service, name, kind, "eu-west-1", prices=prices, hosts=hosts),
        ),
    }


PRICES = (("g5.2xlarge", 1.2), ("g5.4xlarge", 1.6), ("g5.8xlarge", 2.4), ("g5.xlarge", 1.0))
"""A price list for the cases; no such figures are package data."""

"""An instance type as EC2 itself describes it, for those that the package data lacks."""

from __future__ import annotations

import re
from typing import Any

from trainperf.fixes.common.words import GB, MB, MIB
from trainperf.fixes.host._instance_types import GIGABIT
from trainperf.model import InstanceType


def described(answer: dict[str, Any]) -> InstanceType | None:
    """Read one element of `InstanceTypes` in an answer of describe-instance-types.

    None where it does not even tell vCPUs and memory.
    """
    gpus = _part(answer, "GpuInfo").get("Gpus") or []
    first: dict[str, Any] = gpus[0] if gpus else {}
    ebs = _part(_part(answer, "EbsInfo"), "EbsOptimizedInfo")
    lasts, most = _network(_part(answer, "NetworkInfo"))
    vcpus = _part(answer, "VCpuInfo").get("DefaultVCpus")
    memory = _part(answer, "MemoryInfo").get("SizeInMiB")
    if not vcpus or not memory:
        return None
    each = _part(first, "MemoryInfo").get("SizeInMiB")
    return InstanceType(
        name=str(answer.get("InstanceType", "")),
        vcpus=int(vcpus),
        memory=int(memory) * MIB,
        gpus=sum(int(gpu.get("Count", 0)) for gpu in gpus),
        gpu=str(first.get("Name", "")),
        gpu_memory=int(each) * MIB if each else None,
        network_bytes_s=lasts,
        network_burst_bytes_s=most,
        ebs_bytes_s=_times(ebs.get("BaselineThroughputInMBps"), MB),
        ebs_burst_bytes_s=_times(ebs.get("MaximumThroughputInMBps"), MB),
        ebs_iops=ebs.get("BaselineIops"),
        nvme_bytes=int(_part(answer, "InstanceStorageInfo").get("TotalSizeInGB") or 0) * GB,
        efa=int(_part(_part(answer, "NetworkInfo"), "EfaInfo").get("MaximumEfaInterfaces") or 0),
        source="AWS describe-instance-types, asked now",
    )


def _network(info: dict[str, Any]) -> tuple[float | None, float | None]:
    """The lasting rate and that of bursts, bytes per second.

    The headline ("Up to 10 Gigabit") tells the most; what lasts of an "up to" type is
    the baseline of its one card.
    """
    headline = str(info.get("NetworkPerformance", ""))
    found = re.search(r"([\d.]+)\s*(Gigabit|Gbps|Megabit)", headline)
    if found is None:
        return None, None
    size = float(found[1]) * (GIGABIT / 1000 if found[2] == "Megabit" else GIGABIT)
    if not headline.lower().startswith("up to"):
        return size, size
    cards = info.get("NetworkCards") or []
    base = cards[0].get("BaselineBandwidthInGbps") if len(cards) == 1 else None
    return _times(base, GIGABIT), size


def _times(value: float | None, unit: float) -> float | None:
    return None if value is None else value * unit


def _part(answer: dict[str, Any], name: str) -> dict[str, Any]:
    part = answer.get(name)
    return part if isinstance(part, dict) else {}

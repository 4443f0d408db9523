"""What the fixes of storage share: evidence with files that are read, and what reading costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trainperf.errors import NotMeasured
from trainperf.fixes._cases import evidence
from trainperf.model import Evidence, Reads, Volume

KIB, MIB, GIB = 1024, 1024**2, 1024**3

FROM_STORAGE = 0.10
"""With less of its bytes from storage than this share, a step was fed from the kernel's cache."""

REMOTE = ("efs", "lustre", "network", "nfs", "s3 mount")
"""Volumes where each open is a request over the network, whatever the cache holds."""

SHARD = "about 150 MB"
"""What SageMaker's advice on input modes makes of small files."""

EBS_VOLUME = Volume("/data", "ebs", "ext4", "nvme1n1", "Amazon Elastic Block Store")
NVME_VOLUME = Volume("/scratch", "nvme", "xfs", "nvme2n1", "Amazon EC2 NVMe Instance Storage")
EFS_VOLUME = Volume("/mnt/efs", "efs", "nfs4", "fs-1.efs.eu-west-1.amazonaws.com:/")


def reads(volume: Volume = EBS_VOLUME, **fields: Any) -> Reads:
    """64 files of 150 MB on a gp3 volume that gives 125 MiB/s, half of it read in the run."""
    given: dict[str, Any] = {
        "files": 64,
        "opens": 640,
        "seconds": 5.0,
        "sizes": (140 * MIB, 150 * MIB, 160 * MIB),
        "total_bytes": 64 * 150 * MIB,
        "examples": (f"{volume.mount}/train-00001.tfrecord",),
        "seen_by": "Python opened them",
        "cold_bytes_s": 120.0 * MIB,
        "cold_parallel_bytes_s": 125.0 * MIB,
        "warm_bytes_s": 4000.0 * MIB,
        "open_s": 0.0001,
        "probed_files": 16,
        "probed_bytes": 64 * MIB,
        "cold_file_s": 0.033,
        "warm_file_s": 0.001,
        "cached_share": 0.5,
        "opens_per_step": 0.2,
        "bytes_per_step": 20.0 * MIB,
        "stored_per_step": 18.0 * MIB,
        "needed_bytes_s": 400.0 * MIB,
    }
    return Reads(volume, **{**given, **fields})


def storing(*found: Reads, bound: bool = True, **fields: Any) -> Evidence:
    """Evidence of a script that read `found`, waiting for its input unless not `bound`."""
    if bound:
        fields = {"real": 0.200, "resident": 0.050, "input": 0.200, **fields}
    return evidence(reads=found or (reads(),), **fields)


def small(volume: Volume = EFS_VOLUME, **fields: Any) -> Reads:
    """100,000 files of 100 KiB, 32 opened in each step, 4 ms each."""
    given: dict[str, Any] = {
        "files": 100_000,
        "opens": 3200,
        "sizes": (80 * KIB, 100 * KIB, 120 * KIB),
        "total_bytes": 100_000 * 100 * KIB,
        "examples": (f"{volume.mount}/train/000001.jpg",),
        "open_s": 0.002,
        "cold_file_s": 0.004,
        "warm_file_s": 0.003,
        "whole_files": True,
        "opens_per_step": 32.0,
        "bytes_per_step": 32.0 * 100 * KIB,
        "stored_per_step": 32.0 * 100 * KIB,
        "needed_bytes_s": 64.0 * MIB,
    }
    return replace(reads(volume), **{**given, **fields})


def from_storage(one: Reads) -> bool:
    """Whether a step's bytes came from storage, rather than from the kernel's cache.

    Raises `NotMeasured` where either is not known.
    """
    if one.stored_per_step is None or not one.bytes_per_step:
        raise NotMeasured("what a step reads from storage is not known")
    return one.stored_per_step >= FROM_STORAGE * one.bytes_per_step


def readers(evidence: Evidence) -> int:
    """How many read at once at least: the workers of a PyTorch loader, else one."""
    try:
        return max(1, evidence.torch.loader.workers)
    except NotMeasured:
        return 1


def size(value: float) -> str:
    """Say a number of bytes: "96 KiB", "150 MiB", "9.4 GiB"."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1000 or unit == "GiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if value >= 99.5 or unit == "bytes" else f"{value:.2g} {unit}"


def rate(value: float) -> str:
    """Say a rate: "125 MiB/s"."""
    return f"{size(value)}/s"


def place(volume: Volume) -> str:
    """Say where files lie: "/data (EBS, nvme1n1)"."""
    names = {"ebs": "EBS", "nvme": "local NVMe", "efs": "EFS", "nfs": "NFS", "lustre": "Lustre"}
    kind = names.get(volume.kind, volume.kind) or volume.filesystem
    device = volume.device if volume.kind in ("ebs", "nvme", "disk") else ""
    inside = ", ".join(filter(None, (kind, device)))
    return f"{volume.mount or 'an unknown mount'} ({inside})" if inside else volume.mount

"""Evidence of scripts that read files, for tests of the verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kit.evidence import SITE, evidence
from trainperf.fixes.common.words import KIB, MIB
from trainperf.model import Evidence, Loop, Reads, Volume

EBS_VOLUME = Volume("/data", "ebs", "ext4", "nvme1n1", "Amazon Elastic Block Store")

EFS_VOLUME = Volume("/mnt/efs", "efs", "nfs4", "fs-1.efs.eu-west-1.amazonaws.com:/")

LOOP = Loop("fit", where=SITE, batch_size=32, epochs=10, epoch_steps=480)
"""An epoch that reads the files of `reads` once."""


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
    fields = {"loop": LOOP, **fields}
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

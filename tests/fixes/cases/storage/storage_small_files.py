"""The cases of `storage_small_files`."""

from __future__ import annotations

from fixes.cases.common.torch_cases import torch_evidence
from fixes.cases.storage._storage import EBS_VOLUME, small, storing
from trainperf.fixes.common.words import KIB, MIB
from trainperf.model import Channel

silent = [
    storing(),
    storing(small(), bound=False),
    # a channel's input mode is said to be the cause
    storing(
        small(examples=("/in/train/1.jpg",)),
        channels=(Channel("train", "FastFile", "/in/train", "S3"),),
    ),
    # cached on a local disk: microseconds each
    storing(small(EBS_VOLUME, stored_per_step=0.0, warm_file_s=20e-6)),
    # a second epoch: a seventh of the bytes comes from the disk, the rest from memory
    storing(
        small(
            EBS_VOLUME,
            stored_per_step=0.14 * 32 * 100 * KIB,
            cold_file_s=260e-6,
            warm_file_s=18e-6,
        )
    ),
    # few files
    storing(small(files=50, total_bytes=50 * 100 * KIB)),
    # large ones
    storing(small(total_bytes=100_000 * 80 * MIB)),
    # photographs of 12 MB on a disk: their bytes are what takes the time
    storing(small(EBS_VOLUME, total_bytes=100_000 * 12 * MIB)),
    # not known
    storing(small(opens_per_step=None)),
    storing(small(cold_file_s=None, warm_file_s=None)),
    storing(small(EBS_VOLUME, stored_per_step=None)),
]

fires = [
    storing(small()),
    storing(small(EBS_VOLUME)),
    storing(small(warm_file_s=None)),
    # half of the bytes from the disk
    storing(small(EBS_VOLUME, stored_per_step=16.0 * 100 * KIB, warm_file_s=20e-6)),
    torch_evidence(reads=(small(),), real=0.200, resident=0.050, input=0.200),
]

"""The cases of `sagemaker_input_mode`."""

from __future__ import annotations

from fixes.cases.storage._storage import reads, small, storing
from trainperf.fixes.common.words import KIB, MIB
from trainperf.model import Channel, Volume

MOUNT = Volume("/opt/ml/input/data/train", "s3 mount", "fuse", "fastfile")

DISK = Volume("/opt/ml/input", "ebs", "ext4", "nvme1n1")

PATH = "/opt/ml/input/data/train"

FAST = Channel("train", "FastFile", PATH, "S3")

FILE = Channel("train", "File", PATH, "S3")

SMALL_FILES = small(MOUNT, examples=(f"{PATH}/1.jpg",))

LARGE_FILES = reads(DISK, files=1000, total_bytes=1000 * 150 * MIB, examples=(f"{PATH}/1.tar",))

silent = [
    storing(SMALL_FILES),  # no channel
    storing(SMALL_FILES, channels=(FAST,), bound=False),
    storing(SMALL_FILES, channels=(FILE,)),
    storing(LARGE_FILES, channels=(FAST,)),
    # what the script reads lies elsewhere
    storing(small(), channels=(FAST,)),
    # another disk or file server behind it
    storing(LARGE_FILES, channels=(Channel("train", "File", PATH, "FSx"),)),
    storing(reads(DISK, examples=(f"{PATH}/1.tar",)), channels=(FILE,)),
    storing(small(MOUNT, examples=(f"{PATH}/1",), opens_per_step=None), channels=(FAST,)),
]

fires = [
    storing(SMALL_FILES, channels=(FAST,)),
    storing(
        small(MOUNT, examples=(f"{PATH}/1",), total_bytes=100_000 * 900 * KIB),
        channels=(FAST,),
    ),
    storing(LARGE_FILES, channels=(FILE,)),
    storing(LARGE_FILES, channels=(FILE,), bound=False),
]

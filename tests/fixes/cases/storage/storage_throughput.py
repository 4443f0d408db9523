"""The cases of `storage_throughput`."""

from __future__ import annotations

from fixes.cases.common.cases import machine
from fixes.cases.storage._storage import EBS_VOLUME, NVME_VOLUME, reads, small, storing
from trainperf.fixes.common.words import GIB, MIB
from trainperf.model import Instance, InstanceType

G5 = InstanceType("g5.xlarge", 4, 16 * GIB, gpus=1, ebs_bytes_s=437.5e6, nvme_bytes=250 * 10**9)

LOCAL_DISK = machine(instance=Instance("ec2", "g5.xlarge", G5))

silent = [
    storing(bound=False),
    # fast enough
    storing(reads(cold_bytes_s=900.0 * MIB, cold_parallel_bytes_s=1500.0 * MIB)),
    storing(reads(needed_bytes_s=100.0 * MIB)),
    # it came from memory, and all of it fits there
    storing(reads(stored_per_step=0.0)),
    # not measured
    storing(reads(cold_bytes_s=None, cold_parallel_bytes_s=None, reason="kept in the cache")),
    storing(reads(needed_bytes_s=None, bytes_per_step=None)),
    storing(reads(stored_per_step=None)),
    # small files: each waits for an answer, whatever the volume gives
    storing(small(EBS_VOLUME)),
    storing(small()),
]

fires = [
    storing(),
    storing(machine=LOCAL_DISK),
    storing(reads(NVME_VOLUME)),
    # in memory while it was watched, but it cannot stay there
    storing(reads(stored_per_step=0.0, total_bytes=900 * GIB)),
]

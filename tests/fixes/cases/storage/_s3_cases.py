"""Evidence of scripts that read from S3, for tests of the verdict and of reports."""

from __future__ import annotations

from typing import Any

from fixes.cases.common.cases import evidence, machine
from trainperf.model import Evidence, Instance, Objects

READ = Objects(
    bucket="data",
    region="eu-west-1",
    prefix="train/",
    requests=3200,
    request_s=0.030,
    bytes=3200 * 120_000,
    mean_object_bytes=120_000.0,
    latency_s=0.028,
    throughput=((1, 4e6), (4, 15e6), (16, 55e6)),
    body_s=0.002,
    seconds=20.0,
    concurrency=1.0,
    requests_per_step=32.0,
)
"""Small objects, one after the other: 32 of them make a batch."""

HERE = Instance("ec2", "g5.xlarge", region="eu-west-1", source="instance metadata")


def reads(*objects: Objects, instance: Instance | None = HERE, **fields: Any) -> Evidence:
    """A script that waits for S3: a step of 1.1 s, 0.1 s of it computing."""
    fields = {"real": 1.1, "resident": 0.1, "input": 1.05, "objects": objects, **fields}
    return evidence(machine=machine(instance=instance), **fields)

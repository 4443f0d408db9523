"""Evidence of scripts that read from S3, and how fixes speak of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trainperf.fixes.common.cases import evidence, machine
from trainperf.fixes.common.words import ms
from trainperf.model import Evidence, Instance, Objects

MB = 1_000_000

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
ELSEWHERE = replace(HERE, region="us-east-1")


def reads(*objects: Objects, instance: Instance | None = HERE, **fields: Any) -> Evidence:
    """A script that waits for S3: a step of 1.1 s, 0.1 s of it computing."""
    fields = {"real": 1.1, "resident": 0.1, "input": 1.05, "objects": objects, **fields}
    return evidence(machine=machine(instance=instance), **fields)


def per_step(one: Objects) -> float | None:
    """Seconds of each step's input that requests take, as many at once as were; None: unknown."""
    if one.requests_per_step is None or one.request_s is None:
        return None
    each = one.request_s + (one.body_s or 0.0)
    return one.requests_per_step * each / max(1.0, one.concurrency or 1.0)


def asked(one: Objects) -> str:
    """Say what a step asks for: "32.0 requests of 32 ms for each batch, 1.0 at once"."""
    each = (one.request_s or 0.0) + (one.body_s or 0.0)
    return (
        f"{one.requests_per_step:.1f} requests of {ms(each)} for each batch, "
        f"{one.concurrency or 1.0:.1f} at once"
    )

"""The cases of `s3_request_latency`."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.storage._s3_cases import READ, reads
from trainperf.model import Objects

silent = [
    reads(),
    # named, but not seen to be read
    reads(Objects("data", prefix="train/")),
    # a step that does not wait
    reads(READ, real=1.1, resident=1.09),
    # few requests of large objects: shards already
    reads(replace(READ, mean_object_bytes=150e6, requests_per_step=0.02, body_s=0.5)),
    # what it waits for is not S3
    reads(replace(READ, requests_per_step=0.5)),
    # not known
    reads(replace(READ, requests_per_step=None)),
    reads(replace(READ, request_s=None)),
    reads(replace(READ, mean_object_bytes=None)),
]

fires = [
    reads(READ),
    reads(READ, instance=None),
    # not probed
    reads(replace(READ, latency_s=None, throughput=(), reason="S3 did not answer in time")),
    reads(replace(READ, requests_per_step=128.0, concurrency=4.0, body_s=None)),
]

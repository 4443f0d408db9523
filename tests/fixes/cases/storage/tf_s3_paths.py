"""The cases of `tf_s3_paths`."""

from __future__ import annotations

from fixes.cases.common.cases import evidence

PATHS = {"s3_paths": ["s3://bucket/train/0.tfrecord", "s3://bucket/train/1.tfrecord"]}

silent = [
    evidence(),
    evidence(facts={"s3_paths": []}),
]

fires = [
    evidence(facts=PATHS),
    evidence(facts={"s3_paths": ["s3://bucket/*.tfrecord"]}),
]

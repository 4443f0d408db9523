"""The section on volumes and buckets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reporters.rendering import section
from reporters.samples import BUCKET, INPUT_BOUND, over
from trainperf.model import Reads, Volume
from trainperf.report.sections.machine import storage

MIB = 1024**2
(FILES,) = INPUT_BOUND.evidence.reads
PROBED = replace(FILES, cold_bytes_s=125.0 * MIB, cold_parallel_bytes_s=250.0 * MIB)


def files(*reads: Reads, **fields: Any) -> str:
    return section(storage, over(INPUT_BOUND, reads=reads, **fields))


def test_place_files_step_and_rates_are_told() -> None:
    assert files() == ""
    told = files(PROBED)
    for words in (
        "/: disk",
        "640 files, 32.0 MiB",
        "if it never waited",
        "125 MiB/s by one reader, 250 MiB/s by four",
    ):
        assert words in told
    assert "speed not measured: the files were removed" in files(FILES)
    assert "more than 640 files" in files(replace(FILES, at_least=True))
    ebs = Volume("/data", "ebs", "ext4", "nvme1n1", "Amazon EBS", 437.5e6, "EBS base")
    assert "EBS, ext4, nvme1n1; at most 417 MiB/s (EBS base)" in files(replace(FILES, volume=ebs))


def test_requests_to_s3_are_told_with_units() -> None:
    told = section(storage, over(INPUT_BOUND, reads=(), objects=(BUCKET,)))
    assert "s3://data/train/, eu-west-1" in told
    assert "32.0 requests for each batch; 30.0 ms until the response" in told
    assert "SlowDown 40 times" in told

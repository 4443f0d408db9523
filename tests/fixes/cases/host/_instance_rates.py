"""What cases of `_instance_rates` are made of."""

from __future__ import annotations

from typing import Any

from fixes.cases.host._instances import on_instance
from fixes.cases.tf_data._input_cases import starved
from trainperf.fixes.common.words import MB
from trainperf.model import Evidence, Reads, Volume
from trainperf.recording.machine.storage import VolumeKind


def reading(
    kind: VolumeKind = "ebs",
    *,
    cold: float | None = 90.0,
    needed: float | None = 400.0,
    name: str = "g5.xlarge",
    **fields: Any,
) -> Evidence:
    """A loop that waits for files on a volume of that kind; the rates in MB/s.

    A step of 20 ms reads what it needs; an epoch of 1000 of them is 8 GB at 400 MB/s, more
    than the memory that is free.
    """
    reads = Reads(
        Volume("/data", kind, "ext4"),
        files=900,
        opens=900,
        seconds=9.0,
        sizes=(100_000, 110_000, 130_000),
        total_bytes=99_000_000,
        cold_bytes_s=None if cold is None else cold * MB,
        needed_bytes_s=None if needed is None else needed * MB,
    )
    fields.setdefault("reads", (reads,))
    return starved(**{**on_instance(name, available=4 * 1024**3), **fields})

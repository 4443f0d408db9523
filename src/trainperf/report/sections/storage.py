"""Where the data lies: the volumes and buckets that a script reads from, and what they give."""

from __future__ import annotations

from collections.abc import Iterator

from trainperf.model import Diagnosis, Objects, Reads
from trainperf.model import words as units
from trainperf.report.document import STEP, Page, Section

SHOWN = 4
"""Volumes that are shown, those with most files first."""

KINDS = {
    "ebs": "EBS",
    "nvme": "local NVMe",
    "tmpfs": "memory",
    "overlay": "container's own layer",
    "nfs": "NFS",
    "efs": "EFS",
    "lustre": "Lustre",
}
"""Kinds of volumes, where the name that a recording has is not the usual one."""


def storage(diagnosis: Diagnosis, page: Page) -> None:
    """Print each volume and bucket that was read from; nothing where no file was seen."""
    reads, buckets = diagnosis.evidence.reads[:SHOWN], diagnosis.evidence.objects
    told = [*map(_volume, reads), *map(_bucket, buckets)]
    page.items("Where the data lies", ["; ".join(facts) for facts in told])


def _volume(reads: Reads) -> Iterator[str]:
    volume = reads.volume
    device = "" if volume.device == volume.filesystem else volume.device
    kind = KINDS.get(volume.kind, volume.kind)
    what = ", ".join(filter(None, (kind, volume.filesystem, device)))
    yield f"{volume.mount or 'mount not known'}: {what or 'not known'}"
    if volume.limit_bytes_s is not None:
        yield f"at most {units.size(volume.limit_bytes_s)}/s ({volume.limit_basis})"
    more = "more than " if reads.at_least else ""
    yield f"{more}{units.count(reads.files, 'file')}, {units.size(reads.total_bytes)}"
    if reads.bytes_per_step is not None:
        yield f"each step reads {units.size(reads.bytes_per_step)}"
    if reads.needed_bytes_s is not None:
        yield f"{units.size(reads.needed_bytes_s)}/s if it never waited"
    if reads.cold_bytes_s is None:
        yield f"speed not measured: {reads.reason or 'no file was read'}"
    else:
        cold = f"not in memory: {units.size(reads.cold_bytes_s)}/s by one reader"
        four = reads.cold_parallel_bytes_s
        yield cold if four is None else f"{cold}, {units.size(four)}/s by four"


def _bucket(bucket: Objects) -> Iterator[str]:
    """A bucket, and the script's own requests to it."""
    region = f", {bucket.region}" if bucket.region else ""
    yield f"s3://{bucket.bucket}/{bucket.prefix}{region}"
    if not bucket.requests:
        yield "named in the script; no request by boto3 or s3fs was seen"
    if bucket.requests_per_step is not None:
        yield f"{units.number(bucket.requests_per_step)} requests for each batch"
    if bucket.request_s is not None:
        yield f"{units.seconds(bucket.request_s)} until the response"
    if bucket.concurrency is not None:
        yield f"{units.number(bucket.concurrency, 2)} at once"
    if bucket.mean_object_bytes is not None:
        yield f"objects of {units.size(bucket.mean_object_bytes)} on average"
    yield from (f"{name} {units.count(many, 'time')}" for name, many in bucket.errors)


SECTIONS = (Section("storage", STEP + 120, storage, side="machine"),)

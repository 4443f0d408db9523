"""Where the data lies that the script reads, files and objects of S3, and how fast it is read."""

from __future__ import annotations

from collections.abc import Iterator

from trainperf.model import Diagnosis, Objects, Reads, Volume
from trainperf.model import words as units
from trainperf.report.document import STEP, Page, Section

SHOWN = 4
"""Volumes that are shown, those with most files first."""

LABEL = 11
"""Columns of the labels at the left of the facts."""

KINDS = {
    "ebs": "EBS",
    "nvme": "local NVMe",
    "disk": "disk",
    "tmpfs": "memory",
    "overlay": "container's own layer",
    "nfs": "NFS",
    "efs": "EFS",
    "lustre": "Lustre",
    "s3 mount": "S3 mount",
    "network": "network",
}


def storage(diagnosis: Diagnosis, page: Page) -> None:
    """Print each volume that was read from; nothing where no file was seen."""
    if not diagnosis.evidence.reads:
        return
    page.heading("Files that are read")
    for reads in diagnosis.evidence.reads[:SHOWN]:
        for name, text in _volume(reads):
            page.fact(name, text, LABEL)


def _volume(reads: Reads) -> Iterator[tuple[str, str]]:
    yield "Where", _where(reads.volume)
    more = "more than " if reads.at_least else ""
    files = f"{more}{units.count(reads.files, 'file')}, {units.size(reads.total_bytes)}"
    yield "Files", files + (f" ({reads.seen_by})" if reads.seen_by else "")
    if taken := _each_step(reads):
        yield "Each step", taken
    yield "Cold", _cold(reads)


def _where(volume: Volume) -> str:
    device = "" if volume.device == volume.filesystem else volume.device
    told = [KINDS.get(volume.kind, ""), volume.filesystem, device]
    text = f"{volume.mount or 'mount not known'}: {', '.join(filter(None, told)) or 'not known'}"
    if volume.limit_bytes_s is not None:
        text += f"; at most {units.size(volume.limit_bytes_s)}/s ({volume.limit_basis})"
    return text


def _each_step(reads: Reads) -> str:
    told = []
    if reads.opens_per_step is not None and reads.opens_per_step >= 0.05:
        told.append(f"opens {units.number(reads.opens_per_step, 2)} files")
    if reads.bytes_per_step is not None:
        told.append(f"reads {units.size(reads.bytes_per_step)}")
    if reads.stored_per_step is not None:
        told.append(f"takes {units.size(reads.stored_per_step)} from storage")
    if reads.needed_bytes_s is not None:
        told.append(f"{units.size(reads.needed_bytes_s)}/s if it never waited")
    return "; ".join(told)


def _cold(reads: Reads) -> str:
    """Say how fast files are read that are not in memory."""
    if reads.cold_bytes_s is None:
        return f"not measured: {reads.reason or 'no file was read'}"
    text = f"{units.size(reads.cold_bytes_s)}/s by one reader"
    if reads.cold_parallel_bytes_s is not None:
        text += f", {units.size(reads.cold_parallel_bytes_s)}/s by four"
    return text


def objects(diagnosis: Diagnosis, page: Page) -> None:
    """Print each bucket, and what was asked of it while the script ran."""
    if not diagnosis.evidence.objects:
        return
    page.heading("S3")
    for bucket in diagnosis.evidence.objects:
        region = f", {bucket.region}" if bucket.region else ""
        page.prose(f"s3://{bucket.bucket}/{bucket.prefix}{region}", indent=2)
        page.prose(_seen(bucket), indent=4)


def _seen(bucket: Objects) -> str:
    """The script's own requests."""
    if not bucket.requests:
        return "Named in the script; no request by boto3 or s3fs was seen."
    told = [units.count(bucket.requests, "request")]
    if bucket.requests_per_step is not None:
        told.append(f"{units.number(bucket.requests_per_step)} for each batch")
    if bucket.request_s is not None:
        told.append(f"{units.seconds(bucket.request_s)} until the response")
    if bucket.concurrency is not None:
        told.append(f"{units.number(bucket.concurrency, 2)} at once")
    if bucket.mean_object_bytes is not None:
        told.append(f"objects of {units.size(bucket.mean_object_bytes)} on average")
    told += [f"{name} {units.count(many, 'time')}" for name, many in bucket.errors]
    return f"{', '.join(told)}."


SECTIONS = (
    Section("storage", STEP + 120, storage, side="storage"),
    Section("objects", STEP + 130, objects, side="storage"),
)

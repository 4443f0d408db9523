"""Where the data lies that the script reads, files and objects of S3, and how fast it is read."""

from __future__ import annotations

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
    for one in diagnosis.evidence.reads[:SHOWN]:
        _volume(one, page)
    if len(diagnosis.evidence.reads) > SHOWN:
        page.prose(f"and from {len(diagnosis.evidence.reads) - SHOWN} more volumes", indent=2)


def _volume(one: Reads, page: Page) -> None:
    rows = [("Where", _where(one.volume)), ("Files", _files(one))]
    if taken := _each_step(one):
        rows.append(("Each step", taken))
    rows.append(("Cold", _cold(one)))
    for name, text in rows:
        page.fact(name, text, LABEL)


def _where(volume: Volume) -> str:
    device = "" if volume.device == volume.filesystem else volume.device
    told = [KINDS.get(volume.kind, ""), volume.filesystem, device]
    text = f"{volume.mount or 'mount not known'}: {', '.join(filter(None, told)) or 'not known'}"
    if volume.limit_bytes_s is not None:
        text += f"; at most {units.size(volume.limit_bytes_s)}/s ({volume.limit_basis})"
    return text


def _files(one: Reads) -> str:
    small, middle, large = one.sizes
    many = units.count(one.files, "file")
    text = f"{'more than ' if one.at_least else ''}{many}, {units.size(one.total_bytes)}"
    if one.files > 1:
        text += f"; the middle one has {units.size(middle)}"
        if large > 1.5 * small:
            text += f", most have between {units.size(small)} and {units.size(large)}"
    return f"{text} ({one.seen_by})" if one.seen_by else text


def _each_step(one: Reads) -> str:
    told = []
    if one.opens_per_step is not None and one.opens_per_step >= 0.05:
        told.append(f"opens {units.number(one.opens_per_step, 2)} files")
    if one.bytes_per_step is not None:
        told.append(f"reads {units.size(one.bytes_per_step)} ({one.bytes_basis})")
        if one.stored_per_step is not None:
            share = min(1.0, one.stored_per_step / one.bytes_per_step)
            told.append("all from memory" if share < 0.01 else f"{units.share(share)} from storage")
    elif one.stored_per_step is not None:
        much = units.size(one.stored_per_step) if one.stored_per_step >= 1024 else "nothing"
        told.append(f"takes {much} from storage; what it takes from memory cannot be counted")
    if one.needed_bytes_s is not None:
        told.append(f"{units.size(one.needed_bytes_s)}/s if it never waited")
    return "; ".join(told)


def _cold(one: Reads) -> str:
    if one.cold_bytes_s is None:
        return f"not measured: {one.reason or 'no file was read'}"
    text = f"{units.size(one.cold_bytes_s)}/s by one reader"
    if one.cold_parallel_bytes_s is not None:
        text += f", {units.size(one.cold_parallel_bytes_s)}/s by four"
    return f"{text} ({units.size(one.probed_bytes)} were read)"


def objects(diagnosis: Diagnosis, page: Page) -> None:
    """Print what the script asked of each bucket."""
    if not diagnosis.evidence.objects:
        return
    page.heading("S3")
    for one in diagnosis.evidence.objects:
        region = f", {one.region}" if one.region else ""
        page.prose(f"s3://{one.bucket}/{one.prefix}{region}", indent=2)
        page.prose(_seen(one), indent=4)


def _seen(one: Objects) -> str:
    if not one.requests:
        return "Named in the script; no request by boto3 or s3fs was seen."
    text = units.count(one.requests, "request")
    if one.requests_s is not None:
        text += f", {units.rate(one.requests_s, 'requests')}"
    if one.requests_per_step is not None:
        text += f", {units.number(one.requests_per_step)} for each batch"
    if one.request_s is not None:
        text += f"; {units.seconds(one.request_s)} until the response"
    if one.body_s is not None:
        text += f", {units.seconds(one.body_s)} to read it"
    if one.concurrency is not None:
        text += f"; {units.number(one.concurrency, 2)} at once"
    if one.mean_object_bytes is not None:
        text += f"; objects of {units.decimal_size(one.mean_object_bytes)} on average"
    if one.errors:
        told = (f"{name} {units.count(many, 'time')}" for name, many in one.errors)
        text += f". Answered with {', '.join(told)}"
    return f"{text}."


SECTIONS = (
    Section("storage", STEP + 120, storage, side="storage"),
    Section("objects", STEP + 130, objects, side="storage"),
)

"""A look at the run's files and objects, once it has ended."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

from trainperf.evidence.objects import seen
from trainperf.machine.storage import reads
from trainperf.model import Machine, Objects, Reads, Recording

REGIONS_S = 3.0
"""Seconds for S3 to say where buckets are; what is not known by then is not waited for."""


def probe_storage(
    recording: Recording, machine: Machine, interrupted: Callable[[], bool] = lambda: False
) -> Recording:
    """The recording, with what the files that it names can give, and the regions of its buckets.

    Reads a bounded sample of the files that the script read, and on an instance of AWS asks S3
    once for each bucket; writes nothing. Where the run was cut short nothing is read or asked;
    `interrupted` says that the user wants an end while it is looked at. No file system, server or
    program is waited for without an end.
    """
    objects = seen(recording)
    instance, complete = machine.instance, recording.ending.complete
    found: tuple[Reads, ...] = ()
    if complete:  # else the reader has no time for a few more seconds
        kind = instance.type if instance else None
        found = reads.probe(recording, kind, interrupted=interrupted)
    if complete and instance is not None and instance.region and not interrupted():
        objects = with_regions(objects, instance.region)
    return replace(recording, reads=found, objects=objects)


def with_regions(objects: Sequence[Objects], here: str) -> tuple[Objects, ...]:
    """Return `objects` with the regions of AWS's buckets among them, as far as S3 told.

    It is asked without credentials, at the endpoint of the region `here`: the headers of any
    answer about a bucket, a refusal's too, name its region. Never raises.
    """
    regions: dict[str, str | None] = {}
    of_aws = [bucket.bucket for bucket in objects if not bucket.endpoint]

    def ask() -> None:
        with suppress(OSError, http.client.HTTPException):
            for name in of_aws:
                regions[name] = _region(name, here)

    thread = threading.Thread(target=ask, name="trainperf-s3", daemon=True)
    thread.start()
    thread.join(REGIONS_S)
    return tuple(replace(bucket, region=regions.get(bucket.bucket)) for bucket in objects)


def _region(bucket: str, here: str) -> str | None:
    end = ".cn" if here.startswith("cn-") else ""
    url = f"https://s3.{here}.amazonaws.com{end}/{quote(bucket)}"
    try:
        answer = urlopen(Request(url, method="HEAD"), timeout=REGIONS_S)  # by the user's proxy
    except HTTPError as refusal:
        answer = refusal
    with answer:
        region: str | None = answer.headers["x-amz-bucket-region"]
    return region

"""A look at the run's files and objects, once it has ended."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from trainperf.evidence.objects import seen
from trainperf.machine.storage import reads
from trainperf.model import Machine, Objects, Reads, Recording

REGIONS_S = 3.0
"""Seconds for S3 to say where buckets are; what is not known by then is not waited for."""

CONNECT_S, READ_S = 1.0, 1.5


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
        objects = with_regions(objects, {**os.environ, **recording.run.env})
    return replace(recording, reads=found, objects=objects)


def with_regions(
    objects: Sequence[Objects], env: Mapping[str, str], seconds: float = REGIONS_S
) -> tuple[Objects, ...]:
    """Return `objects` with the regions of AWS's buckets among them, as far as S3 told.

    `env` is the environment of the script, whose credentials are used: nothing is asked
    anonymously. Never raises.
    """
    regions: dict[str, str | None] = {}
    of_aws = [bucket.bucket for bucket in objects if not bucket.endpoint]
    if not of_aws:
        return tuple(objects)

    def ask() -> None:
        with suppress(Exception):
            client = _client(env)
            for name in of_aws:
                regions[name] = _region(client, name)

    thread = threading.Thread(target=ask, name="trainperf-s3", daemon=True)
    thread.start()
    thread.join(seconds)
    return tuple(replace(bucket, region=regions.get(bucket.bucket)) for bucket in objects)


def _client(env: Mapping[str, str]) -> Any:
    """A boto3 client that asks once, with the credentials and profile of the script."""
    from botocore.config import Config

    from trainperf.machine.aws import session as aws_session

    session = aws_session.session(
        aws_access_key_id=env.get("AWS_ACCESS_KEY_ID") or None,
        aws_secret_access_key=env.get("AWS_SECRET_ACCESS_KEY") or None,
        aws_session_token=env.get("AWS_SESSION_TOKEN") or None,
        profile_name=env.get("AWS_PROFILE") or None,
    )
    return session.client(
        "s3",
        region_name=env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or None,
        endpoint_url=env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL") or None,
        config=Config(
            retries={"total_max_attempts": 1}, connect_timeout=CONNECT_S, read_timeout=READ_S
        ),
    )


def _region(client: Any, bucket: str) -> str | None:
    """The bucket's region, from the headers of any answer about it; None if not said."""
    try:
        answer = client.head_bucket(Bucket=bucket)
    except Exception as error:  # refused, or sent elsewhere: the answer says where it is
        answer = getattr(error, "response", None) or {}
    headers = (answer.get("ResponseMetadata") or {}).get("HTTPHeaders") or {}
    region = answer.get("BucketRegion") or headers.get("x-amz-bucket-region")
    return str(region) if region else None

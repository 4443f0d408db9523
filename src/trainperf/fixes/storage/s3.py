"""Data in S3: how far away it is, how many requests it takes, how often it asks for less."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving, Unpriced
from trainperf.fixes.common.words import MB, ms
from trainperf.model import Equivalence, Evidence, Objects, StorageWait
from trainperf.model.words import decimal_size as size


def _request_s(objects: Objects) -> float | None:
    """Mean seconds of a request with its body; None: unknown."""
    return None if objects.request_s is None else objects.request_s + (objects.body_s or 0.0)


def _step_s(objects: Objects) -> float | None:
    """Seconds of each step's input that requests take, as many at once as were; None: unknown."""
    request_s = _request_s(objects)
    if objects.requests_per_step is None or request_s is None:
        return None
    return objects.requests_per_step * request_s / max(1.0, objects.concurrency or 1.0)


def _address(objects: Objects) -> str:
    return f"s3://{objects.bucket}/{objects.prefix}"


SMALL = 50 * MB
"""Below this mean size, SageMaker's guide on input modes advises to pack objects into shards."""

SHARD = 150 * MB
"""The size of shards that it advises."""

MATTERS = 0.10
"""The share of the input from which requests are worth a change."""


class S3RequestLatency(Fix):
    """Read few large objects from S3, several at once, not many small ones in turn.

    Why slow: Each request waits some ten milliseconds for its first byte, whatever its size. A
    batch that asks for one object per sample, one after the other, waits that often. One request
    at a time carries 85 to 90 MB/s at best, small objects far less.
    Changes: The samples are packed into shards of about 150 MB that are read from start to end, or
    come through SageMaker's FastFile mode or mountpoint-s3, or several requests are under way at
    once. In shards their order is another.
    When not: Data that fits on the local disk and is read for several epochs: copy it once (File
    mode below 50 to 100 GB). Samples drawn at random from all of the data: FSx for Lustre.
    """

    equivalence = Equivalence.NUMERICS
    without_edit = "the objects have to be packed anew, and their reader with them"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find small objects whose requests are what the step waits for."""
        objects = max(evidence.objects, key=lambda objects: _step_s(objects) or 0.0, default=None)
        if objects is None:
            return None
        seconds, mean = _step_s(objects), objects.mean_object_bytes
        if seconds is None or mean is None or mean >= SMALL:
            return None
        real, requests = evidence.times.real, objects.requests_per_step or 0.0
        if seconds < MATTERS * real:
            return None
        needed = requests * mean / max(evidence.times.resident, 1e-9)
        return Cause(
            title=f"Objects of {size(mean)} are read from S3 one by one",
            text=f"{_address(objects)}: {requests:.1f} requests of "
            f"{ms(_request_s(objects) or 0.0)} for each batch, {objects.concurrency or 1.0:.1f} "
            f"at once, {ms(min(seconds, real))} of a step of {ms(real)}.",
            saves=Saving("the step if the requests cost nothing", seconds, of="input"),
            advice=f"Pack the objects into shards of about {SHARD // MB} MB: the step then needs "
            f"{size(needed)}/s, and one request at a time carries 85 to 90 MB/s. SageMaker's "
            "FastFile mode or mountpoint-s3 reads them ahead. Or ask for many at once.",
            snippet="from concurrent.futures import ThreadPoolExecutor\n\n"
            "pool = ThreadPoolExecutor(16)  # one boto3 client serves all threads\n"
            "samples = list(pool.map(read_one, keys_of_the_batch))",
            waits=StorageWait(seconds, seconds, f"{requests:.1f} requests to {_address(objects)}"),
        )


class S3OtherRegion(Fix):
    """Keep the data in the region that trains on it.

    Why slow: Every request travels to the other region and back: tens to hundreds of milliseconds
    more, each time. The transfer is also charged by the byte, in every epoch anew.
    Changes: The objects are copied once into a bucket of the instance's region, or the job is
    started in the bucket's. The samples are the same.
    When not: Data that must not leave its region: start the job there. A single pass over data
    that is used once: copying it first transfers as much.
    """

    without_edit = "the data, or the job, have to move"

    def look(self, evidence: Evidence) -> Cause | None:
        """Compare the region of the buckets with that of the instance."""
        instance = evidence.machine.instance
        if instance is None or instance.region is None:
            return None
        far = [
            objects
            for objects in evidence.objects
            if objects.region and objects.region != instance.region and not objects.endpoint
        ]
        if not far:
            return None
        objects = max(far, key=lambda objects: objects.requests)
        request_s, bucket = objects.request_s, objects.bucket
        waits = "" if request_s is None else f" A request takes {ms(request_s)} on average."
        return Cause(
            title=f"The data is in {objects.region}, the instance in {instance.region}",
            text=f"{_address(objects)} is read from another region.{waits} Transfer between "
            "regions is charged by the byte.",
            saves=Unpriced("none: what is saved is the transfer, and a part of each request"),
            advice=f"Copy the data once into a bucket in {instance.region}, or start the job in "
            f"{objects.region}.",
            snippet="# a bucket in the instance's region, with a name of its own\n"
            f"aws s3 mb s3://NEW-BUCKET --region {instance.region}\n"
            f"aws s3 sync s3://{bucket}/{objects.prefix} s3://NEW-BUCKET/{objects.prefix} "
            f"--source-region {objects.region}",
        )

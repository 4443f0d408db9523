"""Data in S3: how far away it is, how many requests it takes."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving, Unpriced
from trainperf.fixes.common.words import MB, ms
from trainperf.model import Equivalence, Evidence, Objects, StorageWait
from trainperf.model.words import decimal_size as size


def _step_s(objects: Objects) -> float | None:
    """Seconds of each step's input that requests take, as many at once as were; None: unknown."""
    if objects.requests_per_step is None or objects.request_s is None:
        return None
    request_s = objects.request_s + (objects.body_s or 0.0)
    return objects.requests_per_step * request_s / max(1.0, objects.concurrency or 1.0)


SMALL = 50 * MB
"""Below this mean size, SageMaker's guide on input modes advises to pack objects into shards."""

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
        seconds = None if objects is None else _step_s(objects)
        mean = None if objects is None else objects.mean_object_bytes
        if objects is None or seconds is None or mean is None or mean >= SMALL:
            return None
        real, requests = evidence.times.real, objects.requests_per_step or 0.0
        if seconds < MATTERS * real:
            return None
        address, width = f"s3://{objects.bucket}/{objects.prefix}", objects.concurrency or 1.0
        return Cause(
            title=f"Objects of {size(mean)} are read from S3 one by one",
            text=f"{address}: {requests:.1f} requests for each batch, {width:.1f} at once, take "
            f"{ms(min(seconds, real))} of a step of {ms(real)}.",
            saves=Saving("the step if the requests cost nothing", seconds, of="input"),
            advice="Pack the objects into shards of about 150 MB, which one request at a time "
            "reads at 85 to 90 MB/s, or SageMaker's FastFile mode or mountpoint-s3 ahead of the "
            "step. Or ask for many at once.",
            snippet="from concurrent.futures import ThreadPoolExecutor\n\n"
            "pool = ThreadPoolExecutor(16)  # one boto3 client serves all threads\n"
            "samples = list(pool.map(read_one, keys_of_the_batch))",
            waits=StorageWait(seconds, seconds, f"{requests:.1f} requests to {address}"),
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
        here = None if instance is None else instance.region
        far = [
            objects
            for objects in evidence.objects
            if objects.region and here and objects.region != here and not objects.endpoint
        ]
        if not far:
            return None
        objects = max(far, key=lambda objects: objects.requests)
        source = f"s3://{objects.bucket}/{objects.prefix}"
        return Cause(
            title=f"The data is in {objects.region}, the instance in {here}",
            text=f"{source} is read from another region. Transfer between regions is charged by "
            "the byte.",
            saves=Unpriced("none: what is saved is the transfer, and a part of each request"),
            advice=f"Copy the data once into a bucket in {here}, or start the job in "
            f"{objects.region}.",
            snippet=f"aws s3 mb s3://NEW-BUCKET --region {here}\n"
            f"aws s3 sync {source} s3://NEW-BUCKET/{objects.prefix} "
            f"--source-region {objects.region}",
        )

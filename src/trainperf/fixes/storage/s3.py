"""Data in S3: how far away it is, how many requests it takes."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
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
        here = evidence.machine.instance.region if evidence.machine.instance else None
        far = ""
        if objects.region and here and objects.region != here and not objects.endpoint:
            far = f" They come from {objects.region} to {here}: copy them there once."
        address, width = f"s3://{objects.bucket}/{objects.prefix}", objects.concurrency or 1.0
        return Cause(
            title=f"Objects of {size(mean)} are read from S3 one by one",
            text=f"{address}: {requests:.1f} requests for each batch, {width:.1f} at once, take "
            f"{ms(min(seconds, real))} of a step of {ms(real)}.{far}",
            saves=Saving("the step if the requests cost nothing", seconds, of="input"),
            advice="Pack the objects into shards of about 150 MB, which one request at a time "
            "reads at 85 to 90 MB/s, or SageMaker's FastFile mode or mountpoint-s3 ahead of the "
            "step. Or ask for many at once.",
            snippet="from concurrent.futures import ThreadPoolExecutor\n\n"
            "pool = ThreadPoolExecutor(16)  # one boto3 client serves all threads\n"
            "samples = list(pool.map(read_one, keys_of_the_batch))",
            waits=StorageWait(seconds, seconds, f"{requests:.1f} requests to {address}"),
        )

"""Objects that are read from S3 one by one, each for a round trip."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.words import MB, ms, worth
from trainperf.fixes.storage._storage import asked, per_step
from trainperf.model import Equivalence, Evidence, Finding, Objects
from trainperf.model.words import decimal_size as size

SMALL = 50 * MB
"""Below this mean size, SageMaker's guide on input modes advises to pack objects into shards."""

SHARD = 150 * MB
"""The size of shards that it advises."""

PER_CONNECTION = 85 * MB
"""Bytes a second of one request at a time: S3's performance guide says 85 to 90 MB/s."""

MATTERS = 0.10
"""The share of the input from which requests are worth a change."""

SNIPPET = """\
from concurrent.futures import ThreadPoolExecutor

pool = ThreadPoolExecutor(16)  # one boto3 client serves all threads
samples = list(pool.map(read_one, keys_of_the_batch))"""


class PackTheObjects(Fix):
    """Read few large objects from S3, several at once, not many small ones in turn.

    ## Why it is slow
    Each request waits some ten milliseconds for its first byte, whatever its size. A
    batch that asks for one object per sample, one after the other, waits that often. One
    request at a time carries 85 to 90 MB/s at best, small objects far less.

    ## What changes
    The samples are packed into shards of about 150 MB that are read from start to end, or
    they come through SageMaker's FastFile mode or mountpoint-s3, or several requests are
    under way at once. The samples are the same; in shards their order is another.

    ## When not to
    - Data that fits on the local disk and is read for several epochs: copy it once
      (File mode below 50 to 100 GB), or use FSx for Lustre.
    - Samples that must be drawn at random from all of the data: FSx for Lustre.
    """

    category = "storage"
    equivalence = Equivalence.NUMERICS
    without_edit = "the objects have to be packed anew, and their reader with them"
    framework = "any"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find small objects whose requests are what the step waits for."""
        if not evidence.input_bound:
            return None
        one = max(evidence.objects, key=lambda each: per_step(each) or 0.0, default=None)
        seconds = None if one is None else per_step(one)
        if one is None or seconds is None or one.mean_object_bytes is None:
            return None
        if one.mean_object_bytes >= SMALL or seconds < MATTERS * evidence.times.real:
            return None
        bound = evidence.bound_if_input_saves(seconds)
        if not worth(evidence, bound):
            return None
        return self.finding(
            title=f"Objects of {size(one.mean_object_bytes)} are read from S3 one by one",
            text=f"s3://{one.bucket}/{one.prefix}: {asked(one)}, "
            f"{ms(min(seconds, evidence.times.real))} of a step of "
            f"{ms(evidence.times.real)}.{_probe_said(one)}",
            bound=bound,
            bound_basis="the step if the requests cost nothing",
            advice=_advice(one, evidence),
            snippet=SNIPPET,
            data={
                "bucket": one.bucket,
                "prefix": one.prefix,
                "waits_s": seconds,
                "waits_for": f"{one.requests_per_step:.1f} requests to "
                f"s3://{one.bucket}/{one.prefix}",
            },
        )


def _probe_said(one: Objects) -> str:
    if one.latency_s is None:
        return ""
    text = f" A probe had the first byte after {ms(one.latency_s)}"
    if len(one.throughput) > 1:
        (few, slow), (many, fast) = one.throughput[0], one.throughput[-1]
        text += f", {size(slow)}/s with {few} at once and {size(fast)}/s with {many}"
    return text + "."


def _advice(one: Objects, evidence: Evidence) -> str:
    """How many requests at once, and shards of which size, this step needs."""
    text = f"Pack the objects into shards of about {SHARD // MB} MB"
    assert one.mean_object_bytes is not None
    assert one.requests_per_step is not None
    wanted = one.requests_per_step * one.mean_object_bytes / max(evidence.times.resident, 1e-9)
    connections = max(1, -(-int(wanted) // PER_CONNECTION))
    text += (
        f": the step then needs {size(wanted)}/s, which {connections} "
        f"request{'s' if connections > 1 else ''} at once can carry (85 to 90 MB/s each). "
        "SageMaker's FastFile mode or mountpoint-s3 reads them ahead. Or keep the objects and "
        "ask for many at once."
    )
    return text

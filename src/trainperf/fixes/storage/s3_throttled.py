"""S3 that answers "slow down"."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.words import ms, percent, worth
from trainperf.model import Equivalence, Evidence, Finding, Objects

PER_PREFIX = 5_500
"""GET and HEAD requests a second that each prefix of a bucket bears (S3's performance guide)."""

SLOWED = frozenset({"SlowDown", "503", "ServiceUnavailable", "RequestLimitExceeded", "Throttling"})
"""How S3, and stores like it, ask for fewer requests."""

NEAR = 0.8
"""The share of the limit from which one process alone is at it."""

LEAST = 0.01
"""The share of all attempts below which the waiting of the client is not felt; our choice."""

SNIPPET = """\
from botocore.config import Config
s3 = boto3.client("s3", config=Config(retries={"mode": "adaptive", "max_attempts": 10}))"""


class SpreadTheRequests(Fix):
    """Ask S3 for less at once, or spread the keys over several prefixes.

    ## Why it is slow
    A prefix of a bucket bears 5,500 reads a second, less while S3 still adapts to a
    new load. Beyond that it answers 503 SlowDown, and the client waits and asks again.

    ## What changes
    Fewer and larger requests (shards), keys under several prefixes, or a client that
    adapts its rate. The samples are the same.

    ## When not to
    When the 503s came only in the first minutes of a new bucket or prefix: S3 divides it
    by itself while the load lasts.
    """

    category = "storage"
    equivalence = Equivalence.ENVIRONMENT
    framework = "any"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find attempts that S3 answered with SlowDown while the script ran."""
        slowed = {
            one: sum(many for name, many in one.errors if name in SLOWED)
            for one in evidence.objects
        }
        one = max(slowed, key=lambda each: slowed[each], default=None)
        if one is None or not slowed[one]:
            return None
        count = slowed[one]
        if count < LEAST * (one.requests + count):
            return None
        times = "once" if count == 1 else f"{count:,} times"
        share = percent(min(1.0, count / (one.requests + count)))
        bound, basis = _bound(evidence, one)
        return self.finding(
            title="S3 asks the script to slow down",
            text=f"s3://{one.bucket}/{one.prefix} answered 503 SlowDown {times}, {share} of all "
            f"attempts; botocore waits and asks again.{_rate_said(one)}",
            bound=bound,
            bound_basis=basis,
            advice="Pack the objects into shards of about 150 MB, or spread the keys over several "
            "prefixes; a client in adaptive mode at least asks at the rate that S3 bears.",
            snippet=SNIPPET,
            data={"bucket": one.bucket, "slowed": count},
        )


def _rate_said(one: Objects) -> str:
    rate = one.requests_s
    if rate is None:
        return ""
    text = f" This job asked {rate:,.0f} times a second; a prefix bears {PER_PREFIX:,}"
    if rate < NEAR * PER_PREFIX:
        return text + ": others may read there too, or S3 has not adapted to the load yet."
    return text + "."


def _bound(evidence: Evidence, one: Objects) -> tuple[float | None, str]:
    """The step if each request took what a single one took in the probe."""
    if one.latency_s is None or one.request_s is None or one.requests_per_step is None:
        return None, "none: what a request takes without it is not known"
    late = max(0.0, one.request_s - one.latency_s)
    seconds = one.requests_per_step * late / max(1.0, one.concurrency or 1.0)
    bound = evidence.bound_if_input_saves(seconds)
    if not worth(evidence, bound):
        return None, "none: a request took no longer than one alone in the probe"
    return bound, f"the step if a request took {ms(one.latency_s)}, as one alone did in the probe"

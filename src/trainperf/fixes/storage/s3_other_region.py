"""A bucket in another region than the instance."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.words import ms, worth
from trainperf.fixes.storage._storage import per_step
from trainperf.model import Equivalence, Evidence, Finding, Objects

SNIPPET = """\
# a bucket in the instance's region, with a name of its own
aws s3 mb s3://NEW-BUCKET --region {region}
aws s3 sync s3://{bucket}/{prefix} s3://NEW-BUCKET/{prefix} --source-region {source}"""


class ReadInTheRegion(Fix):
    """Keep the data in the region that trains on it.

    ## Why it is slow
    Every request travels to the other region and back: tens to hundreds of milliseconds
    more, each time. What is transferred between regions is also charged by the byte,
    in every epoch anew.

    ## What changes
    The objects are copied once into a bucket of the instance's region, or the job is
    started in the bucket's. The samples are the same.

    ## When not to
    - Data that must not leave its region: start the job there.
    - A single pass over data that is used once: copying it first transfers as much.
    """

    category = "storage"
    equivalence = Equivalence.ENVIRONMENT
    without_edit = "the data, or the job, have to move"
    framework = "any"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Compare the region of the buckets with that of the instance."""
        instance = evidence.machine.instance
        if instance is None or instance.region is None:
            return None
        far = [
            one
            for one in evidence.objects
            if one.region and one.region != instance.region and not one.endpoint
        ]
        if not far:
            return None
        one = max(far, key=lambda each: each.requests)
        bound, basis = _bound(evidence, one)
        waits = "" if one.request_s is None else f" A request takes {ms(one.request_s)} on average."
        return self.finding(
            title=f"The data is in {one.region}, the instance in {instance.region}",
            text=f"s3://{one.bucket}/{one.prefix} is read from another region.{waits} Transfer "
            "between regions is charged by the byte.",
            bound=bound,
            bound_basis=basis,
            advice=f"Copy the data once into a bucket in {instance.region}, or start the job in "
            f"{one.region}.",
            snippet=SNIPPET.format(
                bucket=one.bucket, region=instance.region, prefix=one.prefix, source=one.region
            ),
            data={"bucket": one.bucket, "region": one.region},
        )


def _bound(evidence: Evidence, one: Objects) -> tuple[float | None, str]:
    seconds = per_step(one)
    if seconds is None:
        return None, "none: how long the step waits for S3 is not known"
    if not evidence.input_bound:
        return None, "none: the step does not wait for its input; what is saved is the transfer"
    bound = evidence.bound_if_input_saves(seconds)
    if not worth(evidence, bound):
        return None, "none: the requests are too little of a step to be seen"
    return bound, "the step if the requests cost nothing"

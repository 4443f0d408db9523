"""Gradients that DDP copies into its buckets and back."""

from __future__ import annotations

from typing import Any

from trainperf.fixes.ddp._edits import DdpSetting, set_ddp
from trainperf.fixes.ranks._exchange import bound_if_sent, ddps_with, exchange
from trainperf.model import Ddp, Equivalence, Evidence, Finding
from trainperf.model.words import size
from trainperf.rewrite import Script

SETTING = "gradient_as_bucket_view"


class BucketView(DdpSetting):
    """Let gradients live in DDP's buckets: `gradient_as_bucket_view=True`.

    ## Why it is slow
    DDP copies each gradient into a bucket before its all-reduce, and copies the result
    back into `.grad` afterwards. All gradients are read and written twice more, and
    they are kept in memory twice.

    ## What changes
    `.grad` becomes a view into the bucket, so nothing is copied. The numbers are the
    same, and the gradients take half the memory.

    ## When not to
    - Code that calls `detach_()` on gradients, or puts other tensors in their place.
    - Where the first steps must not differ in memory: the views are made after one.
    """

    equivalence = Equivalence.EXACT
    try_before = ("torch_ddp_no_sync",)
    basis = "copies take no longer than the all-reduces alone, or the whole exchange"

    def models(self, evidence: Evidence) -> tuple[Ddp, ...]:
        """Return those that copy."""
        return ddps_with(evidence, SETTING, False)

    def bound(self, evidence: Evidence) -> float:
        """Return the speed-up without the copies at most; raises `NotMeasured`."""
        return bound_if_sent(evidence)

    def told(self, evidence: Evidence, models: tuple[Ddp, ...], said: str) -> dict[str, Any]:
        """Say how much is copied."""
        given = exchange(evidence).bytes
        much = f"{size(given)} are" if given else "each gradient is"
        return {
            "title": "DDP copies all gradients into its buckets and back",
            "text": f"{said}. In it {much} copied into buckets, and back into `.grad`.",
            "advice": f"Give DistributedDataParallel {SETTING}=True.",
            "snippet": f"model = DistributedDataParallel(model, {SETTING}=True)",
        }

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Set the keyword in each call."""
        for site in finding.where:
            set_ddp(script, site, SETTING, "True", finding.data)

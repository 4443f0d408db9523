"""Gradients that DDP copies into its buckets and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainperf.fixes import Fix
from trainperf.fixes.common.words import worth
from trainperf.fixes.ddp._edits import ddp_seen, set_ddp
from trainperf.fixes.ranks._exchange import (
    all_exact,
    bound_if_sent,
    ddp_sites,
    ddps_with,
    exchange,
    exchange_said,
    exchanged_said,
    to_try_on_exchange,
)
from trainperf.model import Ddp, Equivalence, Evidence, Finding
from trainperf.model.words import size

if TYPE_CHECKING:
    from trainperf.rewrite import Script

SETTING = "gradient_as_bucket_view"


class BucketView(Fix):
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

    category = "sync"
    equivalence = Equivalence.EXACT
    framework = "torch"
    try_before = ("torch_ddp_no_sync",)

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find DDP models that copy, where the exchange takes a real part of the step."""
        copying = ddps_with(evidence, SETTING, False)
        if not copying:
            return None
        bound = bound_if_sent(evidence)
        if not worth(evidence, bound):
            return None
        given = exchange(evidence).bytes
        much = f"{size(given)} are" if given else "each gradient is"
        text = (
            f"{exchange_said(evidence)}. In it {much} copied into buckets, and back into `.grad`."
        )
        basis = "copies take no longer than the all-reduces alone, or the whole exchange"
        return self._finding(evidence, copying, text, bound, basis)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try it wherever DDP copies."""
        copying = ddps_with(evidence, SETTING, False)
        if not copying:
            return None
        bound, basis = to_try_on_exchange(evidence)
        text = f"{exchanged_said(evidence)}, copied into buckets and back into `.grad`."
        return self._finding(evidence, copying, text, bound, basis)

    def _finding(
        self,
        evidence: Evidence,
        copying: tuple[Ddp, ...],
        text: str,
        bound: float | None,
        basis: str,
    ) -> Finding:
        return self.finding(
            title="DDP copies all gradients into its buckets and back",
            text=text,
            bound=bound,
            bound_basis=basis,
            where=ddp_sites(copying),
            advice=f"Give DistributedDataParallel {SETTING}=True.",
            snippet=f"model = DistributedDataParallel(model, {SETTING}=True)",
            data=ddp_seen(evidence, copying),
            rewritable=all_exact(copying),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Set the keyword in each call."""
        for site in finding.where:
            set_ddp(script, site, SETTING, "True", finding.data)

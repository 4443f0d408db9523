"""Buckets of gradients that are too small or too large for this model."""

from __future__ import annotations

import math

from trainperf.fixes import Fix
from trainperf.fixes.common.words import MIB, worth
from trainperf.fixes.ddp._edits import ddp_seen, ddp_sites, set_ddp
from trainperf.fixes.ranks._exchange import (
    AT_MOST_ALL,
    WORTH_CHANGING,
    bound_if_hidden,
    exchange,
    exchange_said,
    exchange_share,
)
from trainperf.model import Equivalence, Evidence, Finding
from trainperf.rewrite import Script

SIZES = (1, 5, 10, 25, 50, 100, 200)
"""Sizes worth a trial, in MiB; 25 is PyTorch's own."""

MOST_VARIANTS = 2


class BucketSize(Fix):
    """Exchange gradients in buckets of another size: `bucket_cap_mb`.

    ## Why it is slow
    DDP collects gradients in buckets of 25 MiB and starts an all-reduce when one is full.
    Small buckets start early and overlap with the backward, but each costs a fixed time.
    In large ones the last gradients wait, and nothing is left to overlap with.

    ## What changes
    The gradients are cut into other pieces. Sums over more than two ranks may be added up
    in another order. Trials tell which size is best here.

    ## When not to
    When the job will run on other machines or another number of them: the best size
    depends on the network.
    """

    category = "sync"
    equivalence = Equivalence.NUMERICS
    framework = "torch"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find an exchange worth tuning whose gradients another size would cut otherwise."""
        found, sent = evidence.parallel.ddp, exchange(evidence).bytes
        times = max(1, round(max((one.synced or 1.0 for one in found), default=1.0)))
        sizes = {_number(one.settings.get("bucket_cap_mb")) for one in found}
        now = sizes.pop() if len(sizes) == 1 else None
        if now is None or not sent or exchange_share(evidence) < WORTH_CHANGING:
            return None
        if times > 1:  # first of all, once is enough: torch_ddp_no_sync
            return None
        offered = choices(sent, now)
        bound = bound_if_hidden(evidence)
        if not offered or not worth(evidence, bound):
            return None
        seen = len(exchange(evidence).buckets)
        several = seen or _count(sent, now)
        cut = "in one piece" if several == 1 else f"in {'' if seen else 'about '}{several} pieces"
        said = " or ".join(str(one) for one in offered)
        return self.finding(
            title=f"Buckets of {now:g} MiB may not suit this model",
            text=f"{exchange_said(evidence)}. It is cut {cut}, by buckets of {now:g} MiB.",
            bound=bound,
            bound_basis=AT_MOST_ALL,
            where=ddp_sites(found),
            advice=f"Try bucket_cap_mb={said}, and keep what is fastest.",
            snippet=f"model = DistributedDataParallel(model, bucket_cap_mb={offered[0]})",
            data={
                "bucket_cap_mb": offered[0],
                "variants": [{"bucket_cap_mb": one} for one in offered],
                **ddp_seen(evidence, found),
            },
            rewritable=all(one.where is not None and one.where.exact for one in found),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Set the size of each model's buckets."""
        size = str(finding.data["bucket_cap_mb"])
        for site in finding.where:
            set_ddp(script, site, "bucket_cap_mb", size, finding.data)


def choices(much: int, now: float) -> list[int]:
    """Return up to two other sizes in MiB, nearest first, each with its own number of buckets."""
    seen, offered = {_count(much, now)}, []
    for one in sorted(SIZES, key=lambda size: abs(math.log(size / now))):
        count = _count(much, one)
        if count not in seen:
            seen.add(count)
            offered.append(one)
    return offered[:MOST_VARIANTS]


def _count(much: int, size: float) -> int:
    return max(1, math.ceil(much / (size * MIB)))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None

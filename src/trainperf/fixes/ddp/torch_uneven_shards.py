"""Ranks whose epochs have different numbers of steps."""

from __future__ import annotations

import statistics

from trainperf.fixes import Fix
from trainperf.fixes.common.words import worth
from trainperf.fixes.dataloader._loader import places
from trainperf.model import Equivalence, Evidence, Finding

SNIPPET = """\
from torch.utils.data import DataLoader, DistributedSampler

sampler = DistributedSampler(dataset, shuffle=True, drop_last=True)
loader = DataLoader(dataset, batch_size=batch_size, sampler=sampler)
# or, to keep every sample:
# with torch.distributed.algorithms.join.Join([model]):
#     for batch in loader: ..."""


class UnevenShards(Fix):
    """Give every rank the same number of batches.

    ## Why it is slow
    A rank whose shard is shorter is done first. The others then wait for its part of the
    next exchange: the training hangs, fails with a time-out, or under `Join` goes on
    with fewer ranks.

    ## What changes
    `DistributedSampler` cuts the data into equal parts: with `drop_last=True` by leaving
    out the few samples that are over, without it by repeating some.

    ## When not to
    When every sample must be seen exactly once: keep the shards and train under `Join`.
    """

    category = "sync"
    equivalence = Equivalence.SEMANTICS
    without_edit = "which samples are left out or read twice is a choice"
    framework = "torch"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find ranks of a job that exchanges gradients with fewer steps than others."""
        job = evidence.parallel
        steps = {one.rank: one.epoch_steps for one in job.processes if one.epoch_steps is not None}
        if job.exchange is None or len(set(steps.values())) < 2:
            return None
        if any(one.settings.get("join") for one in job.ddp):
            return None
        first, last = min(steps, key=lambda one: steps[one]), max(steps, key=lambda one: steps[one])
        ratio = steps[last] / statistics.fmean(steps.values())
        over = steps[last] - steps[first]
        where = evidence.torch.loaders and places(evidence.torch.loader)
        return self.finding(
            title="The ranks' epochs are of different length",
            text=f"An epoch has {steps[last]:,} steps in rank {last} and {steps[first]:,} in rank "
            f"{first}. Rank {last} has no partner for its last {over:,}.",
            bound=ratio if worth(evidence, ratio) else None,
            bound_basis="steps of the longest epoch over those of the mean one"
            if worth(evidence, ratio)
            else "not about speed: the end of the epoch may hang",
            where=where or (),
            advice="Shard by DistributedSampler(drop_last=True), or train under Join.",
            snippet=SNIPPET,
        )

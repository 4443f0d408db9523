"""Tar shards of WebDataset that are fewer than the workers that could read them."""

from __future__ import annotations

from dataclasses import replace

from trainperf.fixes import Fix
from trainperf.fixes.common.cases import machine
from trainperf.fixes.common.pipeline import upper
from trainperf.fixes.common.torch_cases import LOADER, torch_evidence
from trainperf.fixes.common.words import worth
from trainperf.fixes.dataloader._input_cases import made, starved
from trainperf.fixes.dataloader._loader import (
    bound_with_workers,
    costs_said,
    dearest_step,
    most_workers,
    places,
    workers_needed,
)
from trainperf.model import Equivalence, Evidence, Finding

SNIPPET = """\
with webdataset.ShardWriter("train-%04d.tar", maxcount=1000) as writer:
    for sample in samples:  # 1,000 in each, many times as many shards as workers
        writer.write(sample)"""

FEW = replace(LOADER, iterable=True, sharded=True, shards=2, workers=2, prefetch_factor=2)


class FewShards(Fix):
    """Write the data into more tar shards than there are workers.

    ## Why it is slow
    WebDataset gives each worker whole shards. With fewer shards than workers some have no work
    (WebDataset 0.2 and later raises then, unless `empty_check=False`), and the others do not
    keep up.

    ## What changes
    The same samples lie in more files, many times as many as workers, so that all workers end at
    about the same time. The order of the samples differs.

    ## When not to
    When the workers that have a shard keep up with the training.
    """

    framework = "torch"
    category = "input"
    equivalence = Equivalence.NUMERICS
    without_edit = "the data has to be written anew, into more files"

    silent = [
        torch_evidence(),
        starved(),
        # nobody waits for them
        torch_evidence(loader=FEW),
        # enough for all workers that could pay, or for the one core
        starved(replace(FEW, shards=64)),
        starved(FEW, machine=machine(cores=2)),
        # those that there are keep up
        starved(FEW, stages=made(0.030), input=0.030, real=0.040),
        # drawn from all, or not known
        starved(replace(FEW, shards=None)),
    ]
    fires = [
        starved(FEW, stages=made(0.150), input=0.085),
        starved(replace(FEW, workers=8), stages=made(0.150), input=0.085),
        starved(replace(FEW, shards=1, workers=0)),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a loop that waits for workers of which its shards allow too few."""
        loader = evidence.torch.loader
        if loader.shards is None or not evidence.input_bound:
            return None
        useful = min(most_workers(evidence), workers_needed(evidence))
        if loader.shards >= useful:
            return None
        bound = bound_with_workers(evidence, useful)
        if not worth(evidence, bound):
            return None
        files = "one shard" if loader.shards == 1 else f"{loader.shards} shards"
        idle = loader.workers - loader.shards
        none = f" {idle} of the {loader.workers} workers have no work." if idle > 0 else ""
        return self.finding(
            title=f"All samples lie in {files}",
            text=f"WebDataset gives each worker whole shards, and there are {files}: as many "
            f"workers have work at most, where {useful} would keep up. One process takes "
            f"{costs_said(evidence)}.{none}{dearest_step(loader)}",
            bound=bound,
            bound_basis=upper(evidence, f"{useful} workers with shards, none waiting"),
            where=places(loader),
            advice="Write the samples into many times as many shards as workers.",
            snippet=SNIPPET,
        )

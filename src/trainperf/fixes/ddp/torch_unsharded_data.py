"""Ranks that all read the whole dataset."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from trainperf.fixes import Fix
from trainperf.fixes.dataloader._loader import named, places
from trainperf.fixes.ddp._shard_edits import shard
from trainperf.model import Equivalence, Evidence, Finding, Site

if TYPE_CHECKING:
    from trainperf.rewrite import Script

WHOLE = ("RandomSampler", "SequentialSampler", "WeightedRandomSampler")
"""Samplers of PyTorch that know nothing of ranks."""

PARTS = ("Subset", "TensorDataset", "ConcatDataset", "StackDataset", "list", "tuple")
"""Datasets that hold what they were given, which may be the rank's own part already."""

SNIPPET = """\
from torch.utils.data import DataLoader, DistributedSampler

sampler = DistributedSampler(dataset, shuffle=True)
loader = DataLoader(dataset, batch_size=batch_size, sampler=sampler)
for epoch in range(epochs):
    sampler.set_epoch(epoch)  # another order in each epoch
    for batch in loader:
        ..."""


class UnshardedData(Fix):
    """Let each rank read its own part of the data: `DistributedSampler`.

    ## Why it is slow
    A `DataLoader` with PyTorch's usual samplers goes through the whole dataset in every
    rank. With N ranks an epoch takes N times as many steps as it needs, and each sample
    is seen N times.

    ## What changes
    `DistributedSampler` gives each rank every N-th sample. An epoch is N times shorter,
    and is one pass over the data again. `set_epoch` changes the order between epochs.

    ## When not to
    - When each rank's dataset is its own part already.
    - When epochs are meant to be N passes: shorten the schedule along with the epoch.
    - Evaluation that adds up over all samples: the last ones are repeated to make parts equal.
    """

    category = "sync"
    equivalence = Equivalence.SEMANTICS
    framework = "torch"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a loader of a job of several ranks whose sampler knows nothing of them."""
        job, loader = evidence.parallel, evidence.torch.loader
        lengths = {one.epoch_steps for one in job.processes}
        if job.expected < 2 or job.exchange is None:
            return None  # what nothing ties together may each train on all of it
        if loader.sampler not in WHOLE or len(lengths) > 1:
            return None
        same = evidence.facts.get("ranks_same_data")
        of_a_library = loader.item is None and loader.dataset not in PARTS
        if loader.iterable or same is False or not (same or of_a_library):
            return None
        count = lengths.pop() if lengths else None
        fewer = f": {-(-count // job.expected):,} steps would do, not {count:,}" if count else ""
        unless = "" if same else "Unless each rank's dataset is its own part, "
        return self.finding(
            title=f"Each of {job.expected} ranks goes through all of the data",
            text=f"{named(loader)} is read by a `{loader.sampler}` in every rank. "
            f"{unless}{'an' if unless else 'An'} epoch is {job.expected} passes over the "
            f"data{fewer}.",
            bound=None,
            bound_basis=f"a step stays as it is, but an epoch has 1/{job.expected} of the steps",
            where=places(loader),
            advice="Give the loader a DistributedSampler, and call its set_epoch in each epoch.",
            snippet=SNIPPET,
            data={"loop": None if evidence.loop.where is None else asdict(evidence.loop.where)},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Give the loader a `DistributedSampler`, and tell that the epoch in each."""
        loop = finding.data["loop"]
        shard(script, finding.where[0], None if loop is None else Site(**loop))

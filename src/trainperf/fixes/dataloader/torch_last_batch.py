"""A last batch of an epoch that is compiled for by itself."""

from __future__ import annotations

import re

from trainperf.fixes import Fix
from trainperf.fixes.common.words import at, ms, worth_counted
from trainperf.fixes.dataloader._edits import set_setting
from trainperf.fixes.dataloader._loader import places
from trainperf.fixes.torch_step.compiling import RECURRING
from trainperf.model import Equivalence, Evidence, Finding, Missing
from trainperf.rewrite import Script

FIRST_SIZE = re.compile(r"size mismatch at index 0\. expected (\d+), actual (\d+)")
"""The guard on the first dimension, that of the samples (PyTorch 2.1 and later)."""


class LastBatch(Fix):
    """Leave out the last batch of an epoch where it has fewer samples than the others.

    ## Why it is slow
    `torch.compile` compiles for the shapes it sees. A last batch with fewer samples does not fit
    the code of the others, and the whole model is compiled once more for it, which takes as long
    as hundreds of steps.

    ## What changes
    `drop_last=True` in the call of the `DataLoader`: an epoch is shorter by less than a batch.
    Where samples are shuffled, others are left out in each epoch.

    ## When not to
    - When every sample counts: a batch size that divides their number does the same.
    - In a long training: it is compiled once more, and never again.
    """

    framework = "torch"
    category = "host"
    equivalence = Equivalence.SEMANTICS
    concerns = "outside"
    lasting = False
    counted = True

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a compilation that fewer samples than the loader's asked for."""
        seen, loader = evidence.torch.compiling.recompiling, evidence.torch.loader
        found = None if seen is None else FIRST_SIZE.search(seen.reason)
        if seen is None or found is None or seen.count >= RECURRING or loader.drop_last:
            return None
        usual, last = (int(each) for each in found.groups())
        if usual != loader.batch_size or last >= usual or isinstance(evidence.length_, Missing):
            return None
        training = evidence.length_.steps * evidence.times.real
        if not worth_counted((training + seen.once_s) / training):
            return None
        where = f" of the `DataLoader` at {at(loader.where)}" if loader.where is not None else ""
        return self.finding(
            title="The last batch of an epoch is compiled for by itself",
            text=f"Batches{where} have {usual} samples, the last of an epoch {last}: "
            f"`{seen.function}` was compiled once more for it, which took {ms(seen.once_s)}. The "
            f"training steps as configured take {ms(training)}.",
            bound=None,
            bound_basis="the steps stay as they are: what it saves comes once",
            where=places(loader),
            advice="Leave the last batch out, or choose a size that divides the samples.",
            snippet="loader = DataLoader(dataset, ..., drop_last=True)",
            data={"outside": True},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Have the loader leave it out."""
        set_setting(script, finding.where[0], "drop_last", "True")

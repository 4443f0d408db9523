"""Batches in which short sequences are padded to the length of a long one."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from trainperf.errors import NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import at, percent, worth
from trainperf.fixes.dataloader._loader import ITEM, ranks, stage_seconds
from trainperf.fixes.dataloader.edits.by_length import batch_by_length
from trainperf.fixes.dataloader.torch_padding import ENOUGH, MOSTLY_DATA, model_seconds
from trainperf.model import (
    Equivalence,
    Evidence,
    Finding,
    Loader,
    is_taken,
)

if TYPE_CHECKING:
    from trainperf.rewrite import Script

CUT = 0.95
"""Batches whose longest sequence takes so much of them are padded to it already."""

ITEMS = 0.25
"""Share of a step above which items take too long to be made once more for their lengths."""

SNIPPET = """\
lengths = [len(tokens) for tokens, label in dataset]
# sort parts of the shuffled indices by length, cut them into batches, shuffle these
loader = DataLoader(dataset, batch_sampler=ByLength(lengths, batch_size), collate_fn=collate)"""


class LengthBatches(Fix):
    """Make batches of sequences of about the same length.

    ## Why it is slow
    A batch is padded to its longest sequence. Where short and long ones meet by chance, most of
    what the model computes is padding all the same.

    ## What changes
    A batch sampler shuffles the samples, sorts parts of 50 batches by length, cuts them into
    batches and shuffles these. Every sample is still seen once in an epoch; which ones meet in a
    batch changes, and batches of long sequences have as many samples as those of short ones.
    The lengths are taken from the dataset once, when the loader is built.

    ## When not to
    When the length tells the label, batches are one-sided. When making an item takes long, its
    length should come from the file. Not for several ranks: each would sort on its own.
    """

    framework = "torch"
    category = "model"
    equivalence = Equivalence.SEMANTICS
    usual = 1.3

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find shuffled batches that would be much shorter if like lengths met."""
        padding, loader = evidence.padding, evidence.torch.loader
        if padding is None or padding.sequences < ENOUGH or loader.iterable:
            return None
        if not loader.shuffled or loader.sampler not in ("", "RandomSampler"):
            return None
        longest = padding.longest_length or padding.padded_length
        if padding.bucketed_length >= MOSTLY_DATA * longest:
            return None
        saved = model_seconds(evidence) * (1 - padding.bucketed_length / padding.padded_length)
        bound = bound_if_saved(evidence, saved)
        if not worth(evidence, bound):
            return None
        filled = padding.mean_length / longest
        lengths = (
            f"{padding.mean_length:.0f} steps on average, the longest of a batch {longest:.0f}"
        )
        where = f" ({at(loader.where)})" if loader.where is not None else ""
        cut = padding.place if longest < CUT * padding.padded_length else None
        return self.finding(
            title="Short and long sequences meet in each batch",
            text=f"Sequences of the loader{where} have {lengths}: {percent(1 - filled)} of a batch "
            "is padding even where it is padded to its longest. Batched by length they would be "
            f"padded to {padding.bucketed_length:.0f}.",
            bound=bound,
            bound_basis="forward and backward follow the padded length",
            where=() if loader.where is None else (loader.where,),
            advice="Batch sequences of like lengths.",
            snippet=SNIPPET,
            data={
                "length": None if loader.length is None else asdict(loader.length),
                "place": None if cut is None else asdict(cut),
            },
            rewritable=_editable(evidence, loader),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Give the loader a batch sampler by length."""
        batch_by_length(script, finding.where[0], finding.data)


def _editable(evidence: Evidence, loader: Loader) -> bool:
    """Whether the lengths can be had, at little cost, in the one process that trains."""
    known = loader.where is not None and loader.where.exact and loader.length is not None
    if not known or ranks(evidence) > 1 or not is_taken(evidence.stages_):
        return False
    items = stage_seconds(evidence).get(ITEM)
    try:
        return items is not None and items < ITEMS * evidence.times.resident
    except NotMeasured:
        return False

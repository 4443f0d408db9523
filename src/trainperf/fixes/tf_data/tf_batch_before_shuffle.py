"""Batches shuffled in place of samples."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.words import at
from trainperf.model import Equivalence, Evidence, Finding, Stage


class BatchBeforeShuffle(Fix):
    """Shuffle samples before they are batched, not whole batches.

    ## Why it is slow
    It is training that is slow, not the step. `.batch(n).shuffle(k)` shuffles whole
    batches: the same samples stay together in every epoch, so gradients vary less than
    they should. The buffer holds k batches: n times the memory, n times the time to fill.

    ## What changes
    The two calls change places: `.shuffle(k).batch(n)`.
    `k` counts samples then, not batches; choose it again if it is smaller than the data.
    Batches hold other samples than before, so losses differ from the first step on.

    ## When not to
    When samples were shuffled earlier, in a list of files for example.
    When batches are made by length or by class on purpose.
    """

    category = "practice"
    equivalence = Equivalence.SEMANTICS
    without_edit = "how large a buffer of samples is to be, memory decides"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a shuffle of whole batches, with no shuffle of samples before them."""
        pair = _pair(evidence.stages)
        if pair is None:
            return None
        batch, shuffle = pair
        buffer = shuffle.arguments.get("buffer_size")
        size = batch.arguments.get("batch_size")
        held = ""
        if isinstance(buffer, int) and isinstance(size, int) and buffer > 0:
            held = f" Its buffer of {buffer} batches holds {buffer * size} samples."
        where = tuple(each.where for each in (shuffle, batch) if each.where is not None)
        return self.finding(
            title="Whole batches are shuffled, not samples",
            text=(
                f"`shuffle` ({at(shuffle.where)}) comes after `{batch.op}` ({at(batch.where)}): "
                f"the same samples share a batch in every epoch.{held}"
            ),
            bound=None,
            bound_basis="it changes what is learned per step, not the time of a step",
            where=where,
            advice="Call `shuffle` before `batch`; its buffer counts samples then.",
            snippet="dataset = dataset.shuffle(buffer_size).batch(batch_size)",
        )


def _pair(stages: tuple[Stage, ...]) -> tuple[Stage, Stage] | None:
    """The batch and the shuffle that follows it, where nothing was shuffled before."""
    batch: Stage | None = None
    for each in stages:
        if each.op in ("unbatch", "rebatch"):
            batch = None
        elif each.op in ("batch", "padded_batch") and each.by_user and each.where is not None:
            batch = batch or each
        elif each.op == "shuffle":
            return (batch, each) if batch is not None and each.by_user else None
    return None

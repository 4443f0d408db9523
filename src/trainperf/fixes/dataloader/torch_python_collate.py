"""A collate function that goes through its samples in Python, element by element."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainperf.fixes import Fix
from trainperf.fixes.common.pipeline import REAL_SHARE, pipeline_seconds
from trainperf.fixes.common.words import at, ms, worth
from trainperf.fixes.dataloader._loader import (
    COLLATE,
    ITEM,
    collate_place,
    named,
    stage_seconds,
    takes_nothing,
    waits_at_most,
)
from trainperf.fixes.dataloader.edits.arrays import to_arrays
from trainperf.fixes.torch_step._step import UNTRIED
from trainperf.model import Equivalence, Evidence, Finding

if TYPE_CHECKING:
    from trainperf.rewrite import Script

SNIPPET = """\
def collate(samples):
    # one array operation for the batch, no loop over its elements
    images, labels = zip(*samples)
    return torch.from_numpy(numpy.stack(images)), torch.tensor(labels)"""


class PythonCollate(Fix):
    """Collate a batch with operations on arrays, not element by element in Python.

    ## Why it is slow
    A collate function runs for every batch. `torch.tensor` of a list of lists, or of a list of
    arrays, looks at each number as an object of Python; so does a loop that fills a tensor
    element by element.

    ## What changes
    `torch.tensor(rows, dtype=torch.float32)` becomes
    `torch.tensor(numpy.array(rows, dtype=numpy.float32))`, also where `torch.FloatTensor(rows)`
    stood, or a dtype that only the run shows; a loop `for j, x in enumerate(row): out[i, j] = x`
    becomes one assignment. The batches are the same.

    ## When not to
    Where the work is something else (text is parsed, a dictionary asked for each word): do that
    once for each sample, ahead of training. No edit is written for it, nor for a list whose dtype
    is neither given nor seen in the batches of the run.
    """

    framework = "torch"
    category = "input"
    equivalence = Equivalence.EXACT
    usual = 1.5
    try_before = ("torch_workers",)

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find collating that takes longer than the items, in a loop that waits for it."""
        if not evidence.input_bound:
            return None
        loader, timed = evidence.torch.loader, stage_seconds(evidence)
        items, collate = timed.get(ITEM, 0.0), timed.get(COLLATE, 0.0)
        if collate <= items:
            return None
        longest = pipeline_seconds(evidence)
        if not loader.workers:  # with workers they share the work
            longest = max(longest, evidence.times.input)
        share = min(1.0, collate / max(longest, 1e-9))
        if share < REAL_SHARE:
            return None
        bound = evidence.bound_if_input_saves(evidence.times.input * share)
        if not worth(evidence, bound):
            return None
        place = collate_place(evidence)
        where = f" ({at(place)})" if place is not None else ""
        who = "one process takes" if loader.workers else "each step takes"
        return self.finding(
            title="Collating takes long",
            text=f"{named(loader)}: {who} {ms(collate)} to collate its items{where}, and "
            f"{ms(items)} to make them.",
            bound=bound,
            bound_basis="collating costs nothing",
            where=() if place is None else (place,),
            advice="Collate with one array operation for the whole batch.",
            snippet=SNIPPET,
            rewritable=place is not None,
            data={"parts": list(evidence.loop.batch_parts)},
        )

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try it where the user has a collate function, unless it surely costs nothing."""
        place, timed = collate_place(evidence), stage_seconds(evidence)
        collate = timed.get(COLLATE)
        if place is None or takes_nothing(evidence, collate):
            return None
        if collate is not None and collate <= timed.get(ITEM, 0.0):
            return None
        bound = waits_at_most(evidence)
        return self.finding(
            title="The collate function may work element by element",
            text=f"{named(evidence.torch.loader)} is collated by `{place.function}` ({at(place)}).",
            bound=bound,
            bound_basis=UNTRIED if bound is None else "no step waits for its batch",
            where=(place,),
            advice="Collate with one array operation for the whole batch.",
            snippet=SNIPPET,
            rewritable=True,
            data={"parts": list(evidence.loop.batch_parts)},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Rewrite the loops over elements in the collate function."""
        to_arrays(script, finding.where[0], finding.data.get("parts") or ())

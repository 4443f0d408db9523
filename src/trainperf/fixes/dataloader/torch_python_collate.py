"""A collate function that goes through its samples in Python, element by element."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trainperf.fixes import Fix
from trainperf.fixes.common.cases import stage
from trainperf.fixes.common.pipeline import REAL_SHARE, pipeline_seconds
from trainperf.fixes.common.torch_cases import LOADER, torch_evidence
from trainperf.fixes.common.words import at, ms, worth
from trainperf.fixes.dataloader._input_cases import WITH_WORKERS, made, starved
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
from trainperf.fixes.dataloader.examples.arrays import EXAMPLES
from trainperf.fixes.torch_step._step import UNTRIED
from trainperf.model import Equivalence, Evidence, Finding, Function, Missing, Stage

if TYPE_CHECKING:
    from trainperf.rewrite import Script

SNIPPET = """\
def collate(samples):
    # one array operation for the batch, no loop over its elements
    images, labels = zip(*samples)
    return torch.from_numpy(numpy.stack(images)), torch.tensor(labels)"""

COLLATING = Function("Collate.__call__", "data.py", 52)


def _collating(seconds: float | None, **fields: object) -> tuple[Stage, ...]:
    own = stage("collate", seconds, function=COLLATING, **fields)
    return (stage("dataset item", 1e-5), own)


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
    examples = EXAMPLES

    silent = [
        torch_evidence(stages_=made()),
        # items take longer
        starved(),
        # the step hides it
        torch_evidence(stages_=_collating(0.079), real=0.1, resident=0.098, input=0.09),
        # not timed
        starved(stages=Missing("not timed")),
        starved(stages=_collating(None)),
        # the workers' start, not their work, is what it waits for
        starved(stages=_collating(0.001), input=0.080),
    ]
    fires = [
        starved(stages=made(0.005, 0.075)),
        starved(replace(LOADER, dataset="list", item=None), stages=_collating(0.079)),
        starved(WITH_WORKERS, stages=_collating(0.300)),
    ]

    tries_not = [
        # the step hides it, whatever the noise
        starved(stages=_collating(0.003), real=0.100, resident=0.102, input=0.003),
        # items take longer; PyTorch collates, or a library
        starved(stages=made(0.075, 0.005), resident=None),
        starved(stages=made(0.005, 0.075), resident=None),
        starved(stages=Missing("not timed"), resident=None),
        # next to nothing
        starved(stages=_collating(0.0004), resident=None),
    ]
    tries = [
        starved(stages=_collating(0.079), resident=None),
        starved(stages=_collating(None), resident=None),
        starved(stages=_collating(0.020), real=0.100, resident=0.097, input=0.020),
        starved(WITH_WORKERS, stages=_collating(0.300), input=None),
        starved(stages=_collating(0.079), real=None, resident=None, input=None),
    ]

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

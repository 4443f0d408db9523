"""A list, dictionary or array that each step makes longer, and that late steps pay for."""

from __future__ import annotations

from dataclasses import replace

from trainperf.fixes import Fix
from trainperf.fixes.common.cases import evidence
from trainperf.fixes.over_time import _growth as growth
from trainperf.fixes.over_time._growth import LATE, LIST, MEMORY, over_time
from trainperf.model import Evidence, Finding, Missing

CACHE = replace(LIST, name="self.cache", item="ndarray", cls="Images")
ARRAY = replace(LIST, kind="array", name="scores")


class StateGrows(Fix):
    """Keep no more than a step needs: a bounded list, a number, a file.

    ## Why it is slow
    What is appended in each step is there in every later one: memory grows until it runs
    short, and code that goes through all of it (a mean, a plot, `np.append`, `torch.cat`)
    takes longer with every step.

    ## What changes
    A `deque(maxlen=…)` holds the last ones, a sum and a count hold a mean, a file holds the
    history. A dataset's cache stops at a size that fits.

    ## When not to
    Where all of it is needed at the end, and nothing goes through it before.
    """

    framework = "any"
    category = "memory"
    counted = True
    without_edit = "what may be forgotten is a choice"

    silent = [
        evidence(),
        evidence(over_time_=Missing("too short")),
        # a history of numbers that costs nothing
        evidence(over_time_=over_time(grown=(LIST,))),
        evidence(over_time_=over_time(1.04, grown=(LIST,))),
        # larger batches
        evidence(over_time_=over_time(1.5, batch_ratio=1.5, grown=(LIST,))),
        # neighbours
        evidence(over_time_=over_time(1.5, disturbed=True, grown=(LIST,))),
        # a burst in the middle
        evidence(over_time_=over_time(1.5, rising=False, grown=(LIST,))),
        # that keeps its graph
        evidence(over_time_=over_time(1.5, grown=(replace(LIST, holds_graph=True),))),
        # slower, but nothing grew
        evidence(over_time_=over_time(1.5)),
    ]
    fires = [
        evidence(over_time_=over_time(1.5, grown=(LIST,))),
        evidence(over_time_=over_time(memory=MEMORY, grown=(CACHE,))),
        evidence(over_time_=over_time(1.2, memory=MEMORY, grown=(ARRAY, CACHE))),
        evidence(over_time_=over_time(1.2, grown=(replace(LIST, where=None),))),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find what grew at each look, where steps are slower late, or memory grew."""
        kinds = ("container", "array")
        grown = [
            one for one in evidence.over_time.grown if one.kind in kinds and not one.holds_graph
        ]
        if not grown or not growth.hurts(evidence):
            return None
        where = growth.sites(grown)
        return self.finding(
            title=f"{growth.title_at(grown[0].name, where)} grows with every step",
            text=f"{growth.named(grown)}.{growth.consequence(evidence)}",
            bound=growth.bound(evidence),
            bound_basis=growth.basis(evidence),
            where=where,
            snippet="from collections import deque\n\nlosses = deque(maxlen=100)",
            data=LATE,
        )

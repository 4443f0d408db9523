"""A line that computes the same of the same tensors in each step."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.words import at, ms, percent, worth
from trainperf.model import Evidence, Finding


class SameEachStep(Fix):
    """Compute once what is the same in every step.

    ## Why it is slow
    Nothing that the line reads changes: the same tensors, no weight that is trained among them, go
    into the same operators, and the same numbers come out, in each step.

    ## What changes
    Computed ahead of the loop, it is there in each step. It stays in memory.

    ## When not to
    When something changes now and then, each epoch for instance: the line was seen in a few steps.
    """

    framework = "torch"
    category = "model"
    usual = 1.5
    without_edit = "where it is to be computed is for you to say"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find the dearest line that was seen to do so."""
        lines = evidence.lines
        for line in lines.lines:
            if line.looks is None or not line.looks.same:
                continue
            takes = line.of("operators")
            bound = evidence.bound_if_step_saves(takes)
            if not worth(evidence, bound):
                return None
            return self.finding(
                title=f"The line {at(line.where)} computes the same in each step",
                text=f"`{line.text}` takes {ms(takes)} of each step of {ms(lines.seconds)} "
                f"({percent(takes / lines.seconds)}). In each step that was looked at, its "
                f"operators got the same tensors, unchanged, none of them trained.",
                bound=bound,
                bound_basis="it is there already",
                where=(line.where,),
                advice="Compute it once, before the loop, and read it in each step.",
            )
        return None

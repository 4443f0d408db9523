"""A backward that goes through the graphs of earlier steps as well: each step takes longer."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.words import at, ms, percent, times, worth
from trainperf.model import Equivalence, Evidence, Finding, Line

LEAST = 0.25
"""Share of a step that a backward must take beyond what its step has to derive."""


class GrowingGraph(Fix):
    """Cut the graph between one step and the next.

    ## Why it is slow
    What one step computes and the next one reads keeps the graph it came from. With `retain_graph`
    the backward of each step derives all steps before it again: it takes longer and longer, and so
    does the memory that the graphs hold.

    ## What changes
    A value that is detached before it is kept enters the next step as a number: gradients end
    there, as most such scripts intend. The training is another one where they should not.

    ## When not to
    When earlier steps are to be derived again: back-propagation through time has its own length,
    after which it detaches.
    """

    framework = "torch"
    category = "model"
    equivalence = Equivalence.SEMANTICS
    usual = 2.0
    without_edit = "where a gradient should end is for you to say"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a backward that keeps its graph and takes more than its own step has to derive."""
        lines, calls = evidence.lines, evidence.torch.calls
        traced = any(line.operators is not None for line in lines.lines)
        line = next((line for line in lines.lines if _derives(line)), None)
        if calls is None or not calls.retains_graph or not traced or line is None:
            return None
        beyond = line.of("backward")
        bound = evidence.bound_if_step_saves(beyond)
        if beyond < LEAST * lines.seconds or not worth(evidence, bound):
            return None
        grows = evidence.over_time
        longer = (
            f" Late steps took {times(grows.ratio)} as long as early ones."
            if grows is not None and grows.slower
            else ""
        )
        return self.finding(
            title="The backward goes through the graphs of earlier steps",
            text=f"`{line.text}` ({at(line.where)}) keeps its graph. Of each step of "
            f"{ms(lines.seconds)} it takes {ms(beyond)} ({percent(beyond / lines.seconds)}) for "
            f"operators that were not called in that step.{longer}",
            bound=bound,
            bound_basis="the backward derives its own step alone",
            where=(line.where,),
            advice="Detach what is kept from one step to the next, and call `backward()` without "
            "`retain_graph`: if it then says that it goes through a graph a second time, another "
            "value is kept.",
            snippet="""\
self.average = 0.9 * self.average + 0.1 * new.detach()
loss.backward()  # without retain_graph""",
        )


def _derives(line: Line) -> bool:
    return ".backward(" in line.text and bool(line.of("backward"))

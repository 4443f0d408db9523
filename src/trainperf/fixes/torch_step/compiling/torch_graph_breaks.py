"""Lines of the script at which its compiled graphs end."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import at, worth
from trainperf.fixes.torch_step.compiling.torch_compile import FUSING, fusing
from trainperf.model import Equivalence, Evidence, Finding
from trainperf.model.torch.compiling import GraphBreak

MOST_NAMED = 4

SNIPPET = """\
x = torch.where(x.mean() > limit, x / 2, x)  # not: if x.mean().item() > limit: x = x / 2
losses.append(loss.detach())  # read and printed outside the compiled code, now and then"""


class GraphBreaks(Fix):
    """Take what breaks the graph out of the compiled code.

    ## Why it is slow
    `torch.compile` cannot follow a number that Python asks of a tensor (`.item()`, `if x.sum()
    > 0`), `print`, or a library that it does not know. The graph ends there, Python runs, and
    a new graph begins: nothing is put together over that line. In a loop, the whole function
    runs without compiled code.

    ## What changes
    `torch.where` decides in place of `if`; what is only looked at is returned, and read outside.
    With `fullgraph=True` the call that compiles raises at the first line that breaks a graph.

    ## When not to
    A break between two large graphs costs little, as does one in code that runs seldom.
    """

    category = "model"
    equivalence = Equivalence.EXACT
    framework = "torch"
    without_edit = "what the line is for decides what it becomes"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find breaks in a step where much is left that compiling could have put together."""
        breaks = evidence.torch.compiling.breaks
        if not breaks:
            return None
        bound = bound_if_saved(evidence, fusing(evidence).saved)
        if not worth(evidence, bound):
            return None
        named = breaks[:MOST_NAMED]
        lines = " ".join(_said(one) for one in named)
        more = len(breaks) - len(named)
        count = "one line" if len(breaks) == 1 else f"{len(breaks)} lines"
        return self.finding(
            title=f"Compiled graphs end at {count} of the script ({at(breaks[0].where)})",
            text=f"{lines}{f' There are {more} more.' if more else ''} Between two graphs Python "
            "runs, and nothing is put together.",
            bound=bound,
            bound_basis=FUSING,
            where=tuple(one.where for one in named),
            advice="Decide by tensors (`torch.where`) in the compiled code, and read or print "
            "numbers outside of it.",
            snippet=SNIPPET,
        )


def _said(one: GraphBreak) -> str:
    skips = "; a function around it runs without compiled code" if one.skips else ""
    return f"{at(one.where)}: {one.reason.rstrip('.')}{skips}."

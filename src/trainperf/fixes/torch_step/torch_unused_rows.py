"""An optimizer that updates every row of a table of which a step uses a few."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.words import at, ms, percent, worth
from trainperf.model import Equivalence, Evidence, Finding

USED = 0.05
"""Share of its rows that a step looks up, below which the others are what an update costs."""


class UnusedRows(Fix):
    """Update only the rows of an embedding that a step has used.

    ## Why it is slow
    The gradient of an embedding is a whole table, zeros but for the rows that the batch looked up.
    It is filled with zeros, and an optimizer such as Adam reads and writes the table, the gradient
    and two more of the same size, in each step.

    ## What changes
    `sparse=True` makes a gradient of the used rows alone, and `SparseAdam` updates these. Moments
    of the other rows do not decay in between, so that training differs a little from Adam's.

    ## When not to
    With weight decay on the table, or gradients that are clipped by the norm of all of them: sparse
    gradients take no part in either. With `DistributedDataParallel` on NCCL.
    """

    framework = "torch"
    category = "model"
    equivalence = Equivalence.SEMANTICS
    usual = 3.0
    without_edit = "the table needs an optimizer of its own"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a table whose update, most of it of rows that were not used, takes a step's time."""
        lines, optimizer = evidence.lines, evidence.torch.part("optimizer").seconds
        models = [model.parameters for model in evidence.torch.models if model.trained]
        weights = sum(number for number in models if number)
        for line in lines.lines:
            looks = line.looks
            if looks is None or not looks.rows or looks.rows_used is None or looks.sparse:
                continue
            unused = 1 - looks.rows_used / looks.rows
            if 1 - unused > USED or not weights:
                continue
            elements = looks.rows * looks.width
            saves = unused * optimizer * min(1.0, elements / weights) + unused * line.of("backward")
            bound = evidence.bound_if_step_saves(saves)
            if not worth(evidence, bound):
                continue
            return self.finding(
                title=f"Each step updates {looks.rows:,} rows of an embedding and uses "
                f"{looks.rows_used:,}",
                text=f"The line {at(line.where)} (`{line.text}`) looks up {looks.rows_used:,} of "
                f"{looks.rows:,} rows in a step. The optimizer updates all of them, with zeros for "
                f"{looks.rows - looks.rows_used:,}: it takes {ms(optimizer)} of each step of "
                f"{ms(lines.seconds)}; the table has {percent(min(1.0, elements / weights))} of "
                f"the weights.",
                bound=bound,
                bound_basis="rows that were not used cost no update",
                where=(line.where,),
                advice="Give the embedding sparse gradients, and an optimizer that takes them.",
                snippet="""\
self.items = nn.Embedding(rows, width, sparse=True)

tables = list(model.items.parameters())
rest = [weight for weight in model.parameters() if all(weight is not table for table in tables)]
optimizers = [torch.optim.SparseAdam(tables, lr=lr), torch.optim.Adam(rest, lr=lr)]""",
            )
        return None

"""A matrix that is nearly all zeros, multiplied as a dense one in each step."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.words import at, ms, worth
from trainperf.model import Equivalence, Evidence, Finding

ZEROS = 0.95
"""Share of zeros from which a product with a sparse matrix is faster on CPUs and GPUs alike."""


class DenseZeros(Fix):
    """Multiply by a sparse matrix where nearly all of it is zeros.

    ## Why it is slow
    A dense product multiplies and adds every element, forward and backward, and reads all of them
    from memory. Of an adjacency matrix, a one-hot code or a mask, nearly all are zeros.

    ## What changes
    A sparse matrix holds the others alone: a product takes time and memory by their number. Sums
    are rounded in another order.

    ## When not to
    When the zeros do not last: the operand was seen to be the same in a few steps only. A gradient
    with respect to the matrix itself is another matter: its zeros become numbers.
    """

    framework = "torch"
    category = "model"
    equivalence = Equivalence.NUMERICS
    usual = 2.0
    without_edit = "where the matrix is made and all that reads it has to be changed together"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find the line whose product with such a matrix takes most of a step."""
        lines = evidence.lines
        for line in lines.lines:
            looks = line.looks
            if looks is None or looks.zeros is None or looks.zeros < ZEROS:
                continue
            takes = line.of("operators", "backward")
            bound = evidence.bound_if_step_saves(takes * looks.zeros)
            if not worth(evidence, bound):
                return None
            name = f"`{looks.variable}`" if looks.variable else "A matrix"
            shape = " × ".join(f"{size:,}" for size in looks.shape)
            return self.finding(
                title=f"{name} is {100 * looks.zeros:.1f} % zeros, and multiplied as a dense one",
                text=f"The line {at(line.where)} (`{line.text}`) takes {ms(takes)} of each step of "
                f"{ms(lines.seconds)}, forward and backward. Its operand of {shape} elements was "
                f"the same in each step, {100 * looks.zeros:.1f} % of them zeros.",
                bound=bound,
                bound_basis="its zeros cost nothing",
                where=(line.where,),
                advice="Make it sparse once, where it is built, and multiply by that.",
                snippet=f"""\
{looks.variable or "matrix"} = {looks.variable or "matrix"}.to_sparse_csr()  # once
output = {looks.variable or "matrix"} @ features  # or torch.sparse.mm(…)""",
            )
        return None

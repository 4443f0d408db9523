"""Attention computed by hand: scores, softmax and weighted sum, each in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import at, ms, percent, worth
from trainperf.fixes.torch_step._step import compute_seconds, part_seconds, to_try
from trainperf.fixes.torch_step.attention._edit import use_kernel
from trainperf.model import Equivalence, Evidence, Finding, Site

if TYPE_CHECKING:
    from trainperf.rewrite import Script

MOST_NAMED = 3


class ScaledDotProductAttention(Fix):
    """Compute attention in one kernel, with `F.scaled_dot_product_attention`.

    ## Why it is slow
    Written out, attention makes a matrix of scores for each pair of positions, scales it,
    masks it, takes the softmax and multiplies it with the values. Each step writes that
    matrix to memory and reads it back, and backward does so again.

    ## What changes
    One function does all of it block by block, and the matrix is never stored: less time
    and much less memory for long sequences. Masks go in as `attn_mask`, a triangle as
    `is_causal`. The result is the same but for rounding; dropout draws other random numbers.
    A row that is hidden whole by -inf gives 0, where it gave NaN; one hidden by a number
    gives the same, and gets a gradient.

    ## When not to
    - When the attention weights themselves are wanted (plots, extra losses): no edit then.
    - Not every kernel takes a mask, or dropout: on a CPU dropout makes it slower.
    """

    category = "model"
    usual = 1.25
    rarely_all = True
    equivalence = Equivalence.NUMERICS
    framework = "torch"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a `forward` that seems to compute attention by hand, in a step it may matter to."""
        heads = evidence.torch.model.attentions
        if not heads:
            return None
        compute = compute_seconds(evidence)
        shares = [_share(evidence, head) for head in heads]
        known = [share for share in shares if share is not None]
        saved = compute
        basis = "at most all of forward and backward"
        if len(known) < len(shares):
            text = (
                f"Forward and backward take {ms(compute)} of the {ms(evidence.times.real)} step; "
                "attention's part of that was not measured."
            )
        else:
            forward = sum(known) * evidence.times.real
            saved = min(compute, forward * _with_backward(evidence))
            basis = "at most all of this function, its backward in proportion"
            text = f"It was found in {percent(min(1.0, sum(known)))} of the samples of the stack."
        bound = bound_if_saved(evidence, saved)
        if not worth(evidence, bound):
            return None
        return self._found(heads, text, bound, basis)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Have it tried wherever a `forward` attends by hand and the step may matter."""
        heads = evidence.torch.model.attentions
        if not heads:
            return None
        bound, basis = to_try(evidence)
        return self._found(heads, "What it takes of a step was not measured.", bound, basis)

    def _found(
        self, heads: tuple[Site, ...], text: str, bound: float | None, basis: str
    ) -> Finding:
        names = " and ".join(f"`{head.function}` at {at(head)}" for head in heads[:MOST_NAMED])
        return self.finding(
            title=f"Attention is written out by hand ({at(heads[0])})",
            text=f"Attention seems to be computed by hand in {names}. {text}",
            bound=bound,
            bound_basis=basis,
            where=heads,
            advice="Replace scores, mask, softmax and weighted sum with one call.",
            snippet=SNIPPET,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Put the attention of each function into one call, unless that can be done in none."""
        refused = []
        for site in finding.where:
            try:
                use_kernel(script, site)
            except CannotRewrite as error:
                refused.append(error)
        if refused and len(refused) == len(finding.where):
            raise refused[0]


SNIPPET = """\
import torch.nn.functional as F

# q, k, v: (batch, heads, positions, size of a head)
# is_causal=True only where a mask hid the later positions
out = F.scaled_dot_product_attention(q, k, v, is_causal=True)"""


def _share(evidence: Evidence, head: Site) -> float | None:
    """Share of the stack samples that found the function at `head`; None if it says nothing.

    On a GPU the stack shows what is started, not what runs. A function that is not
    among those sampled was found too seldom to be listed.
    """
    if evidence.device.kind == "GPU" or not evidence.functions:
        return None
    name = head.function.rpartition(".")[2]
    inside = [
        cost
        for cost in evidence.functions
        if cost.file == head.file
        and cost.thread == "main"
        and cost.name.rpartition(".")[2] == name
        and cost.line >= head.line
    ]
    nearest = min(inside, key=lambda cost: cost.line, default=None)
    return nearest.share if nearest else 0.0


def _with_backward(evidence: Evidence) -> float:
    """How many times as long forward and backward take as forward alone."""
    forward = part_seconds(evidence, "forward")
    if forward <= 0:
        raise NotMeasured("the forward took no time")
    return 1 + part_seconds(evidence, "backward") / forward

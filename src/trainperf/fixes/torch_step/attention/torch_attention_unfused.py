"""Attention by PyTorch's own function that runs without one of its fused kernels."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.words import at, ms
from trainperf.model import Equivalence, Evidence

WHY = {
    "dropout": "no fused kernel of this device drops weights out",
    "mask gradient": "its mask requires a gradient",
    "mask": "no fused kernel takes a mask of this shape or type",
    "memory": "the last dimension of a tensor is not the one that lies together in memory",
    "dimensions": "its tensors have three dimensions, not four",
    "width": "its values are not as wide as its keys",
    "type or shape": "no fused kernel takes this type or head size on this device",
}
"""What keeps attention from a fused kernel, by what its arguments were seen to need."""

ADVICE = {
    "dropout": "Drop out after the attention, or none in it: few models lose by that.",
    "mask gradient": "Make the mask without a gradient (`mask.detach()`), or a bias of few "
    "numbers that `flex_attention` adds.",
    "mask": "Give a boolean mask that broadcasts to batch, heads, queries and keys, or "
    "`is_causal=True` and none.",
    "memory": "Call `.contiguous()` on it once, or shape heads so that their width comes last.",
    "dimensions": "Give it a batch and heads: `query.unsqueeze(0)`.",
    "width": "Pad the values to the width of the keys, and cut the result.",
    "type or shape": "Compute it in bfloat16 or float16, with heads of a multiple of 8 up to 256.",
}


class TorchAttentionUnfused(Fix):
    """Let `scaled_dot_product_attention` take one of its fused kernels.

    ## Why it is slow
    It has kernels that never write the matrix of scores to memory. Where its arguments suit none
    of them, it multiplies, adds, takes a softmax and multiplies again, over that whole matrix.

    ## What changes
    What keeps the kernel off: a mask of another form, dropout elsewhere, another order in memory.

    ## When not to
    Where what keeps it off is what the model is about, as a learned bias for each pair.
    """

    category = "model"
    usual = 1.3
    equivalence = Equivalence.NUMERICS
    framework = "torch"
    without_edit = "what keeps the kernel off is part of the model, or of how its tensors are made"

    def look(self, evidence: Evidence) -> Cause | None:
        """Find lines whose attention PyTorch said to compute without a fused kernel."""
        found = [line for line in evidence.lines.lines if line.looks and line.looks.unfused]
        if not found:
            return None
        takes = sum(line.of("operators", "backward") for line in found)
        dearest = max(found, key=lambda line: line.seconds)
        assert dearest.looks is not None
        why = dearest.looks.unfused or ""
        return Cause(
            title=f"Attention has no fused kernel: {WHY[why]}",
            text=f"PyTorch was asked for the call at {at(dearest.where)}. Attention takes "
            f"{ms(takes)} of each step of {ms(evidence.lines.seconds)}, forward and backward.",
            saves=Saving("at most all of the attention", takes, of="all"),
            where=tuple(line.where for line in found),
            advice=ADVICE[why],
            snippet="out = F.scaled_dot_product_attention(query, key, value, is_causal=True)",
        )

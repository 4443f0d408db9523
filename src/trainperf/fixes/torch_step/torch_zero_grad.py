"""Gradients that are filled with zeros, to be added to."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import ms, worth
from trainperf.fixes.torch_step._step import part_seconds
from trainperf.model import Equivalence, Evidence, Finding, TorchOptimizer

ADDED = 3
"""Passes over the gradients that the backward makes to add to zeros: two reads, a write.

Without old gradients it keeps the new ones as they are. Filling with zeros is one more.
"""


class SetToNone(Fix):
    """Let `zero_grad` drop the gradients, not fill them with zeros.

    ## Why it is slow
    `zero_grad(set_to_none=False)` writes zeros into every gradient. The backward then
    reads and adds to them, where it could simply keep what it has computed.

    ## What changes
    Gradients are `None` until the backward makes new ones. That is PyTorch's default
    since 2.0; the numbers are the same.

    ## When not to
    - Weights that get no gradient in some steps: with zeros, momentum and weight decay
      still change them, with `None` the optimizer passes them over.
    - Code that reads `.grad` between `zero_grad` and the backward.
    """

    category = "model"
    equivalence = Equivalence.EXACT
    framework = "torch"
    without_edit = "weights without a gradient in some steps would be passed over"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find optimizers whose gradients are filled with zeros at a price."""
        filled = _filled(evidence)
        if not filled:
            return None
        part, bound = _bound(evidence)
        if not worth(evidence, bound):
            return None
        where = tuple(one.zero_grad_where for one in filled if one.zero_grad_where is not None)
        tensors = sum(one.tensors for one in filled)
        return self.finding(
            title="Gradients are filled with zeros in every step",
            text=f"Filling the gradients of {tensors} tensors with zeros takes {ms(part)} of the "
            f"{ms(evidence.times.real)} step, and the backward adds to them.",
            bound=bound,
            bound_basis="no zeros written, and none added to in the backward",
            where=where,
            advice="Call `zero_grad()` without `set_to_none=False`.",
            snippet="optimizer.zero_grad(set_to_none=True)",
        )


def _filled(evidence: Evidence) -> list[TorchOptimizer]:
    """The optimizers whose gradients are filled with zeros."""
    return [one for one in evidence.torch.optimizers if one.set_to_none is False]


def _bound(evidence: Evidence) -> tuple[float, float]:
    """Seconds of a step that fill gradients, and the bound without; raises `NotMeasured`."""
    part = part_seconds(evidence, "zero_grad")
    return part, bound_if_saved(evidence, part + min(ADDED * part, _backward(evidence)))


def _backward(evidence: Evidence) -> float:
    """Seconds of a step in the backward, 0 where it was not seen by itself."""
    seen = any(part.name == "backward" for part in evidence.torch.split)
    return part_seconds(evidence, "backward") if seen else 0.0

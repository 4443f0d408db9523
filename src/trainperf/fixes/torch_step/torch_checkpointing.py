"""Activations that are computed twice to save memory that is free."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trainperf.fixes import Fix
from trainperf.fixes.common.cases import GIB, GPU
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.torch_cases import MODEL, split, torch_evidence
from trainperf.fixes.common.words import ms, percent, worth
from trainperf.fixes.torch_step._step import part_seconds
from trainperf.model import Equivalence, Evidence, Finding, Missing

ROOM = 0.60
"""Share of the GPU's memory below which a peak leaves room for activations."""

CHECKPOINTED = replace(MODEL, checkpointing=True)


def _memory(peak: float) -> dict[str, Any]:
    return {"memory": {"allocated_peak": int(peak * 24 * GIB), "total": 24 * GIB}}


class NoCheckpointing(Fix):
    """Keep the activations where there is memory for them.

    ## Why it is slow
    Gradient checkpointing drops what the forward computed, and computes it again in the
    backward: one more forward in each step.

    ## What changes
    Without it the step has one forward. Its activations stay in memory until the
    backward, which may be several times what is used now.

    ## When not to
    - How much memory it takes is known only by trying. Checkpointing every second
      block is halfway.
    - Longer inputs than those of the first steps may come later.
    """

    category = "model"
    equivalence = Equivalence.EXACT
    framework = "torch"

    silent = [
        torch_evidence(device=GPU, torch=_memory(0.3)),
        # the memory is needed
        torch_evidence(device=GPU, model=CHECKPOINTED, torch=_memory(0.7)),
        # how much is free is not known
        torch_evidence(device=GPU, model=CHECKPOINTED),
        torch_evidence(model=CHECKPOINTED, torch=_memory(0.3)),
        # the forward is a small part
        torch_evidence(
            device=GPU,
            model=CHECKPOINTED,
            torch=_memory(0.3),
            split=split(forward=0.002, backward=0.09),
        ),
        torch_evidence(
            device=GPU, model=CHECKPOINTED, torch=_memory(0.3), split=Missing("not timed")
        ),
        # input-bound
        torch_evidence(
            device=GPU, model=CHECKPOINTED, torch=_memory(0.3), resident=0.01, input=0.099
        ),
    ]
    fires = [
        torch_evidence(device=GPU, model=CHECKPOINTED, torch=_memory(0.3)),
        torch_evidence(device=GPU, model=replace(CHECKPOINTED, where=None), torch=_memory(0.1)),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a checkpointed model beside free memory; its second forward can go."""
        model, memory = evidence.torch.model, evidence.torch.memory
        peak, total = memory.get("allocated_peak"), memory.get("total")
        if evidence.device.kind != "GPU" or not model.checkpointing or not peak or not total:
            return None
        if peak >= ROOM * total:
            return None
        forward = part_seconds(evidence, "forward")
        bound = bound_if_saved(evidence, forward)
        if not worth(evidence, bound):
            return None
        return self.finding(
            title=f"{model.cls} computes its activations twice, with memory to spare",
            text=f"Gradient checkpointing runs the forward again in the backward: up to "
            f"{ms(forward)} of the {ms(evidence.times.real)} step. At its peak, training took "
            f"{peak / GIB:.1f} of {total / GIB:.1f} GiB ({percent(peak / total)}).",
            bound=bound,
            bound_basis="one forward less in each step",
            where=(model.where,) if model.where else (),
            advice="Turn gradient checkpointing off, or use it in every second block only.",
            snippet="model.gradient_checkpointing_disable()  # of the transformers library",
        )

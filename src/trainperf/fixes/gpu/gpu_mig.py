"""A run on a slice of a GPU that was divided."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.cases import GIB
from trainperf.fixes.common.torch_cases import torch_evidence
from trainperf.fixes.common.words import percent
from trainperf.fixes.gpu._cases import on_gpu
from trainperf.fixes.gpu._health import card, on_used
from trainperf.model import Equivalence, Evidence, Finding

SLICE = torch_evidence(torch={"memory": {"total": 6 * GIB}})


class MigSlice(Fix):
    """Train on the whole GPU rather than on a slice of it.

    ## Why it is slow
    A GPU in MIG mode (multi-instance GPU) is divided into slices, and a program has one
    of them: a part of the SMs, of the memory and of its bandwidth.

    ## What changes
    A larger slice, or MIG mode off (`nvidia-smi -mig 0`, as root, while nothing runs).

    ## When not to
    Where the GPU is divided among several jobs on purpose, and the slice is large enough.
    """

    framework = "any"
    category = "practice"
    equivalence = Equivalence.ENVIRONMENT

    silent = [
        on_gpu(),
        # the driver does not say, or the card cannot be divided
        on_gpu(gpu={"mig": None}),
        # not used
        on_gpu(gpu={"mig": True}, device=SLICE.device),
    ]
    fires = [
        on_gpu(gpu={"mig": True}),
        on_gpu(gpu={"mig": True}, framework=SLICE.framework, torch_=SLICE.torch_),
    ]

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a card in MIG mode that the run computes on."""
        divided = [gpu for gpu in on_used(evidence) if gpu.mig]
        if not divided:
            return None
        gpu = divided[0]
        text = "The driver says that MIG mode is on: a program gets one slice of the card."
        total = None if evidence.torch_ is None else evidence.torch_.memory.get("total")
        if total and gpu.memory_total:
            text += (
                f" The slice of this run has {total / GIB:.1f} of {gpu.memory_total / GIB:.1f} GiB "
                f"of the memory, {percent(total / gpu.memory_total)}."
            )
        return self.finding(
            title=f"{card(gpu)} is divided, and this run has a slice of it",
            text=text,
            bound=None,
            bound_basis="not measured: what the whole card gives is not known",
            advice="If the card is yours alone, take a larger slice, or turn MIG mode off.",
            snippet=f"nvidia-smi -L\n# with nothing running on it\n"
            f"sudo nvidia-smi -i {gpu.index} -mig 0",
        )

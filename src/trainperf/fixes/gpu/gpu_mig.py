"""A run on a slice of a GPU that was divided."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.words import GIB, percent
from trainperf.fixes.gpu._health import card
from trainperf.model import Equivalence, Evidence, Finding


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

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a card in MIG mode that the run computes on."""
        divided = [gpu for gpu in evidence.device.used if gpu.mig]
        if not divided:
            return None
        part = divided[0]
        whole = next((gpu for gpu in evidence.machine.gpus if gpu.index == part.index), None)
        text = "MIG mode is on: a program gets one slice of the card."
        total = None if whole is None else whole.memory_total
        if total and part.memory_total and part.memory_total < total:
            text += (
                f" The slice of this run has {part.memory_total / GIB:.1f} of {total / GIB:.1f} "
                f"GiB of the memory, {percent(part.memory_total / total)}."
            )
        elif part.memory_total and whole is None:
            text += f" The slice of this run has {part.memory_total / GIB:.1f} GiB of memory."
        name = part.name if whole is None else card(whole)
        which = "" if whole is None else f" -i {whole.index}"
        return self.finding(
            title=f"{name} is divided, and this run has a slice of it",
            text=text,
            bound=None,
            bound_basis="not measured: what the whole card gives is not known",
            advice="If the card is yours alone, take a larger slice, or turn MIG mode off.",
            snippet=f"nvidia-smi -L\n# with nothing running on it\nsudo nvidia-smi{which} -mig 0",
        )

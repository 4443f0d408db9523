"""Numbers so small that a CPU computes with them in many times the cycles of others."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.words import percent
from trainperf.fixes.rows import SetFlag
from trainperf.fixes.torch_step._step import part_seconds, process_site
from trainperf.model import Equivalence, Evidence
from trainperf.model.torch.step import Part

LEAST = 0.01
"""Share of denormal numbers from which they are told of; our choice: an operation on one takes
some hundred times the cycles of another (Intel's and AMD's optimisation guides)."""

PARTS: dict[str, tuple[Part, ...]] = {
    "optimizer": ("optimizer",),
    "weights": ("forward", "backward", "optimizer"),
    "gradients": ("backward", "optimizer"),
}
"""The parts of a step that compute with what holds them."""

WHOSE = {
    "optimizer": "of the optimizer's state",
    "weights": "of the weights",
    "gradients": "of the gradients",
}


class TorchFlushDenormal(Fix):
    """Have the CPU take denormal numbers for zero: `torch.set_flush_denormal(True)`.

    ## Why it is slow
    Below 1e-38 a float32 has no full precision any more. A CPU computes with such numbers in
    microcode, some hundred times as slowly. Moments of weights that get no gradient, pruned
    weights and signals that decay pass through that range for thousands of steps.

    ## What changes
    Numbers below 1.2e-38 become zero. Whatever adds them to another number rounds them away
    anyway.

    ## When not to
    Where such numbers are divided by each other, or are multiplied back into range.
    """

    category = "model"
    counted = True
    usual = 2.0
    equivalence = Equivalence.NUMERICS
    framework = "torch"
    edit = SetFlag("torch.set_flush_denormal(True)", "torch", unless=("set_flush_denormal",))

    def look(self, evidence: Evidence) -> Cause | None:
        """Find denormal numbers in what a step computes with on a CPU."""
        shares = evidence.torch.flag("denormal")
        many = {kind: share for kind, share in shares.items() if share >= LEAST}
        if evidence.device.kind != "CPU" or not many:
            return None
        seen = [f"{percent(share)} {WHOSE[kind]}" for kind, share in many.items()]
        parts: tuple[Part, ...] = tuple(dict.fromkeys(p for kind in many for p in PARTS[kind]))
        where = process_site(evidence)
        return Cause(
            title="The CPU computes with denormal numbers",
            text=f"{' and '.join(seen)} are so close to zero that they have no full precision.",
            saves=Saving(
                "at most all of the parts that compute with them",
                lambda: part_seconds(evidence, *parts),
            ),
            where=() if where is None else (where,),
            advice="Take them for zero, before the first operation of PyTorch.",
            snippet="torch.set_flush_denormal(True)",
        )

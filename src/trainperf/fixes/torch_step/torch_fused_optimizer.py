"""An optimizer that updates its tensors in many kernels where one could do."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.trainers import seen_in_call
from trainperf.fixes.common.words import if_measured, ms, probe_said
from trainperf.fixes.rows import Callee, SetArgument
from trainperf.fixes.torch_step._step import part_seconds
from trainperf.model import Equivalence, Evidence

OPTIMIZER = Callee(defaults={"fused": None, "foreach": None})
"""Their default leaves the choice to PyTorch."""


class TorchFusedOptimizer(Fix):
    """Update all weights in one fused kernel: `fused=True`.

    ## Why it is slow
    On a CPU an optimizer of `torch.optim` walks over the weights tensor by tensor, with a
    kernel for each operation of its formula; on a GPU it takes tensors together (`foreach`),
    still with one kernel per operation. Each reads and writes weights and moments once more.

    ## What changes
    `fused=True` makes the whole update in one pass over each weight. The formula is the
    same; rounding differs in the last digits. `foreach=…` goes, because it excludes it.

    ## When not to
    - When gradients must flow through the update itself (`differentiable=True`).
    - Adam, AdamW, SGD and Adagrad have it; a few of their options and devices do not.
    """

    category = "model"
    usual = 1.15
    equivalence = Equivalence.NUMERICS
    framework = "torch"
    edit = SetArgument("fused", "True", OPTIMIZER, excludes="foreach")

    def look(self, evidence: Evidence) -> Cause | None:
        """Find optimizers that could be fused."""
        slow = [
            optimizer
            for optimizer in evidence.torch.optimizers
            if optimizer.can_fuse and optimizer.builtin and optimizer.fused is not True
        ]
        if not slow:
            return None
        dearest = max(slow, key=lambda optimizer: optimizer.parameters)
        where = tuple(optimizer.where for optimizer in slow if optimizer.where is not None)
        grouped = evidence.device.kind == "GPU" and dearest.foreach is not False
        given = [{"fused": one.fused, "foreach": one.foreach} for one in slow]
        alike = {
            name: value
            for name, value in given[0].items()
            if all(arguments[name] == value for arguments in given)
        }
        takes = if_measured(
            lambda: (
                f" Updating the weights takes {ms(part_seconds(evidence, 'optimizer'))} of a step."
            )
        )
        return Cause(
            title=f"{dearest.cls} is not fused",
            text=f"{dearest.cls} updates {dearest.tensors} tensors, "
            f"{'a kernel per operation' if grouped else 'one after the other'}.{takes}"
            f"{probe_said(evidence, 'fused', 'With fused=True the same update')}",
            saves=Saving(
                "at most the whole of the optimizer's part of the step",
                lambda: part_seconds(evidence, "optimizer"),
                probe="fused",
            ),
            where=where,
            advice="Give the optimizer fused=True.",
            snippet=f"optimizer = torch.optim.{dearest.cls}(model.parameters(), ..., fused=True)",
            data=seen_in_call(evidence, **alike),
            rewritable=len(where) == len(slow) and all(site.exact for site in where),
        )

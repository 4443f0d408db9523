"""Copies to the GPU that no loader explains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import at, ms, percent, worth
from trainperf.fixes.torch_step._copies import made_there, pins
from trainperf.fixes.torch_step._step import part_seconds
from trainperf.model import Equivalence, Evidence, Finding

if TYPE_CHECKING:
    from trainperf.rewrite import Script

LEAST_SHARE = 0.10
"""Share of a step in copies below which they are no subject."""

OF_A_BATCH = 4
"""Copies per step that a batch may well need: more of them are of something else."""


class Transfers(Fix):
    """Make tensors on the GPU, and move only what must be moved.

    ## Why it is slow
    A tensor that is built on the CPU and moved with `.to(device)` is written twice, and
    Python waits for the copy unless its memory is pinned. Masks, position numbers and
    constants need not cross at all.

    ## What changes
    With `device=device` the GPU makes the tensor itself. What never changes is made
    once, before the loop, or is a buffer of the model.

    ## When not to
    - Random numbers made on the GPU come from another stream: no edit is written for them.
    - Data that fits into the GPU's memory can be moved there once; else pin it and copy
      with `non_blocking=True`.
    - Copies on a stream of their own that the step never waits for cost it nothing.
    """

    category = "sync"
    equivalence = Equivalence.NUMERICS
    framework = "torch"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find copies of a tenth of a step that pinning the loader would not explain."""
        if evidence.device.kind != "GPU":
            return None
        part, seconds = evidence.torch.part("transfer"), part_seconds(evidence, "transfer")
        loaders = [each for each in evidence.torch.loaders if each.role == "training"]
        pageable = any(not each.pin_memory for each in loaders)
        share = seconds / evidence.times.real
        if share < LEAST_SHARE or (pageable and part.calls <= OF_A_BATCH):
            return None
        bound = bound_if_saved(evidence, seconds)
        if not worth(evidence, bound):
            return None
        place = f", most at {at(part.where)}" if part.where else ""
        many = f"{part.calls:.0f} copies" if part.calls >= 1.5 else "copies"
        return self.finding(
            title=f"{percent(share)} of every step goes into copies to the GPU",
            text=f"Each step of {ms(evidence.times.real)} spends {ms(seconds)} in {many} between "
            f"CPU and GPU{place}.",
            bound=bound,
            bound_basis="no time spent on copies",
            where=(part.where,) if part.where else (),
            advice="Build tensors with `device=`; move what never changes once, before the loop.",
            snippet="mask = torch.ones(length, length, device=device).tril()",
            data={"pinned": pins(evidence.torch.loaders)},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Make what is made and moved on the device; copy pinned batches without a wait."""
        for site in finding.where:
            made_there(script, site, finding.data["pinned"])

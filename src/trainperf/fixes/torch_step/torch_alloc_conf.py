"""A CUDA allocator that has run out of room between its blocks."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.step import step_may_matter
from trainperf.fixes.common.words import GIB, percent
from trainperf.model import Equivalence, Evidence, Finding

APART = 2.0
"""Reserved over allocated bytes from which memory counts as fragmented (TraceML's rule)."""

LEAST_SHARE = 0.25
"""Share of a GPU's memory that must be reserved: below, nothing is short of anything."""

SETTING = "expandable_segments:True"


class ExpandableSegments(Fix):
    """Let the CUDA allocator grow its segments: `expandable_segments:True`.

    ## Why it is slow
    PyTorch keeps freed memory in blocks of the sizes that were asked for. Where sizes
    change from step to step, no free block fits: the allocator waits for the GPU, gives
    all free blocks back and asks the driver for new ones.

    ## What changes
    `PYTORCH_CUDA_ALLOC_CONF` has `expandable_segments:True`: segments grow in place, so
    free memory stays in one piece. The numbers are the same.

    ## When not to
    - Where tensors are shared between processes on the GPU, and on drivers or systems
      that cannot do it (Windows): PyTorch then warns and goes on as before.
    - The variable must be set before CUDA starts; a script that sets it itself wins.
    """

    category = "memory"
    equivalence = Equivalence.ENVIRONMENT
    framework = "torch"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find an allocator that had to start over, or holds twice what is used."""
        memory = evidence.torch.memory
        allocated, reserved = memory.get("allocated_peak"), memory.get("reserved_peak")
        retries, total = memory.get("retries"), memory.get("total")
        if evidence.device.kind != "GPU" or not allocated or not reserved or not total:
            return None
        apart = reserved >= APART * allocated and reserved >= LEAST_SHARE * total
        given = str(evidence.torch.flag("alloc_conf"))
        if "expandable_segments" in given or not (retries or apart):
            return None
        if not step_may_matter(evidence):
            return None
        conf = f"{given},{SETTING}" if given else SETTING
        text = (
            f"PyTorch holds {reserved / GIB:.1f} GiB of the GPU's memory at its peak "
            f"({percent(reserved / total)}), and tensors took {allocated / GIB:.1f} GiB."
        )
        if retries:
            often = "once" if retries == 1 else f"{retries:,} times"
            text += f" It found no free block {often}, and gave all of them back to the driver."
        return self.finding(
            title="The GPU's memory is in pieces",
            text=text,
            bound=None,
            bound_basis="not measured",
            advice="Let segments grow in place.",
            snippet=f"export PYTORCH_CUDA_ALLOC_CONF={conf}",
            data={"conf": conf},
        )

    def environment(self, finding: Finding) -> dict[str, str]:
        """Add the setting to those that the allocator has."""
        return {"PYTORCH_CUDA_ALLOC_CONF": str(finding.data.get("conf", SETTING))}

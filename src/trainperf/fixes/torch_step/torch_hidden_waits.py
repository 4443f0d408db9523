"""Operations that make Python wait for the GPU without asking for a number."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import at, ms, worth
from trainperf.fixes.torch_step._lookers import EACH_STEP, gap_seconds
from trainperf.model import Equivalence, Evidence, Finding
from trainperf.model.torch.step import DeviceWait

MOST_NAMED = 4

SNIPPET = """\
loss = torch.where(mask, per_item, 0.0).sum() / mask.sum()  # not per_item[mask].mean()
scale = self.scale        # a buffer: self.register_buffer("scale", torch.tensor(...))
x = batch.to(device, non_blocking=True)  # of a loader with pin_memory=True"""


class HiddenWaits(Fix):
    """Keep the operations of a step from waiting for the GPU.

    ## Why it is slow
    Python runs ahead of the GPU and queues its kernels. Some operations cannot be queued:
    `x[mask]`, `nonzero`, `unique` (the size of the result is a number on the GPU),
    `torch.tensor(…, device="cuda")`, a copy from memory that is not pinned. Python waits
    for all that is queued, and then the GPU waits for Python.

    ## What changes
    The places named do the same without a number that the host has to know: `torch.where`
    in place of a mask, constants made once, pinned memory. Sums over masked values are
    added up in another order. `torch_transfers` edits copies; masks take a decision.

    ## When not to
    Where the GPU is busy all the time nothing is lost. A wait once every hundred steps costs
    nothing either.
    """

    category = "sync"
    equivalence = Equivalence.NUMERICS
    framework = "torch"
    without_edit = "what gives the same without a number of the GPU's takes a decision"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find operations that wait in each step, on a GPU that is idle for part of it."""
        waits = [one for one in evidence.torch.waits if one.calls >= EACH_STEP]
        gaps = gap_seconds(evidence)
        if not waits or gaps <= 0:
            return None
        bound = bound_if_saved(evidence, gaps)
        if not worth(evidence, bound):
            return None
        count = sum(one.calls for one in waits)
        many = "One operation waits" if round(count) <= 1 else f"{count:,.0f} operations wait"
        return self.finding(
            title=f"{many} for the GPU in each step",
            text=f"CUDA names these operations as ones that wait: {_named(waits)}. The GPU runs "
            f"nothing for {ms(gaps)} of a step of {ms(evidence.times.real)}: after each wait it "
            "has to be given its next kernel.",
            bound=bound,
            bound_basis="no time left in which the GPU runs no kernel",
            where=tuple(one.where for one in waits if one.where is not None),
            advice="Do the same without a number that the host must know.",
            snippet=SNIPPET,
        )


def _named(waits: list[DeviceWait]) -> str:
    """The places with how often each waits: "net.py:44 (12 times)"."""
    said = []
    for one in waits[:MOST_NAMED]:
        place = at(one.where) or "a place in a library"
        said.append(place if round(one.calls) <= 1 else f"{place} ({one.calls:.0f} times)")
    more = len(waits) - MOST_NAMED
    return ", ".join(said) + (f" and {more} more" if more > 0 else "")
